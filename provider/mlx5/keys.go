package mlx5

import "github.com/goverbs/goverbs/verbs"

// The fields that a change of a key changes, and its conditions.
const (
	umrInline      = 0x80 // the request holds the list of pieces that the key covers
	umrOffset      = 0x10
	umrCheckFree   = 0x20 // the key must not be in use
	umrCheckQPN    = 0x08 // the key must be this QP's
	umrListShift   = 16   // in the second word: number of 16-byte units that follow
	umrLists       = 4
	maskLength     = 1 << 0
	maskStart      = 1 << 6
	maskKey        = 1 << 13
	maskQPN        = 1 << 14
	maskLocalWrite = 1 << 18
	maskRead       = 1 << 19
	maskWrite      = 1 << 20
	maskAtomic     = 1 << 21
	maskFree       = 1 << 29
	maskBinding    = maskLength | maskStart | maskLocalWrite | maskRead | maskWrite | maskAtomic

	keyFree   = 0x40
	keyAnyQPN = 0xffffff
)

// Sizes of the parts, in segments.
const (
	umrSegs  = 3
	keySegs  = 4
	listSegs = 4 // one, padded
)

// putKeys writes a binding of a window, or the invalidation of a binding or key, which is a
// window or region of 0 bytes.
func (q *qp) putKeys(at uint32) (end uint32) {
	b := &q.binding
	q.putUMR(at, b.Length > 0, b.type2)
	at += umrSegs
	q.putKey(at, b)
	at += keySegs
	if b.Length == 0 {
		return at
	}
	*q.sq.segs.At(at) = segment{words(uint32(b.Length), b.MR.LKey()), be64(b.Addr)}
	q.zero(at+1, listSegs-1)
	return at + listSegs
}

func (q *qp) putUMR(at uint32, binds, type2 bool) {
	flags, mask, lists := uint32(umrInline|umrOffset), uint64(maskFree|maskKey), uint32(0)
	if type2 {
		mask |= maskQPN
	}
	switch {
	case binds:
		mask |= maskBinding
		lists = umrLists
		if type2 {
			flags |= umrCheckFree
		}
	case type2:
		flags |= umrCheckQPN
	}
	*q.sq.segs.At(at) = segment{words(flags<<24, lists<<umrListShift), be64(mask)}
	q.zero(at+1, umrSegs-1)
}

func (q *qp) putKey(at uint32, b *binding) {
	qpn, first, start := uint32(keyAnyQPN), uint32(keyFree)<<24, uint64(0)
	if b.Length > 0 {
		if first = accessBits(b.Access) << 8; b.type2 {
			qpn = q.num
		}
		if b.Access&verbs.AccessZeroBased == 0 {
			start = b.Addr
		}
	}
	*q.sq.segs.At(at) = segment{words(first, qpn<<8|b.RKey&0xff)}
	*q.sq.segs.At(at + 1) = segment{be64(start), be64(b.Length)}
	q.zero(at+2, keySegs-2)
}

// accessBits returns a peer's access rights in the layout of keys. Local reads need no bit.
func accessBits(a verbs.Access) (bits uint32) {
	for _, m := range [...]struct {
		access verbs.Access
		bit    uint32
	}{{verbs.AccessRemoteAtomic, 0x40}, {verbs.AccessRemoteWrite, 0x20}, {verbs.AccessRemoteRead, 0x10}, {verbs.AccessLocalWrite, 0x08}} {
		if a&m.access != 0 {
			bits |= m.bit
		}
	}
	return bits
}

func (q *qp) zero(at, n uint32) {
	for i := range n {
		*q.sq.segs.At(at + i) = segment{}
	}
}
