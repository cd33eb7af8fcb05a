package mlx5

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// What a change of a key changes, as its mask has it.
const (
	maskLength = 1 << 0
	maskStart  = 1 << 6
	maskKey    = 1 << 13
	maskQPN    = 1 << 14
	maskRights = 1<<18 | 1<<19 | 1<<20 | 1<<21
	maskFree   = 1 << 29
)

// umr reads a change of a key: the binding of a window, or the end of one or of a key.
func (c *reader) umr() {
	head, key := c.take("what a change of a key changes", 48), c.take("a key", 64)
	c.q.keys = true
	old := c.Imm
	c.Imm = 0
	mask := binary.BigEndian.Uint64(head[8:])
	type2, binds := mask&maskQPN != 0, mask&maskLength != 0
	c.checkHead(head, mask, type2, binds)
	fixed, word := key[0], binary.BigEndian.Uint32(key[4:])
	c.wantUnused(key[1:2])
	c.wantUnused(key[3:4])
	c.wantUnused(key[8:16])
	c.wantUnused(key[32:])
	qpn := word >> 8
	switch {
	case binds && type2 && qpn != c.q.qp.Num, !(binds && type2) && qpn != 0xffffff:
		c.note("the key becomes that of QP %#x", qpn)
	case binds && fixed != 0, !binds && fixed != 0x40:
		c.note("the key is marked %#x, free is 0x40", fixed)
	}
	if !binds {
		c.wantUnused(key[2:3])
		c.wantUnused(key[16:32])
		if type2 {
			c.Opcode, c.Imm = abi.IB_UVERBS_WR_LOCAL_INV, old
			return
		}
		c.Bind = fakeverbs.Binding{RKey: old, NewRKey: old&^0xff | word&0xff}
		return
	}
	c.binding(key, old, word)
}

// wantUnused wants zeros in a part of a key that the change leaves alone.
func (c *reader) wantUnused(b []byte) {
	if !c.q.m.options.OldBytes {
		c.wantZeros("a key", b)
	}
}

func (c *reader) checkHead(head []byte, mask uint64, type2, binds bool) {
	flags, lists, want := uint8(0x90), uint16(0), uint64(maskFree|maskKey)
	if type2 {
		want |= maskQPN
	}
	switch {
	case binds:
		want |= maskLength | maskStart | maskRights
		lists = 4
		if type2 {
			flags |= 0x20
		}
	case type2:
		flags |= 0x08
	}
	if head[0] != flags {
		c.note("the change of a key has flags %#x, not %#x", head[0], flags)
	}
	if got := binary.BigEndian.Uint16(head[4:]); got != lists {
		c.note("the change of a key has %d units of lists, not %d", got, lists)
	}
	if mask != want {
		c.note("the change of a key changes %#x, not %#x", mask, want)
	}
	c.wantZeros("the change of a key", head[1:4])
	c.wantZeros("the change of a key", head[6:8])
	c.wantZeros("the change of a key", head[16:])
}

// binding reads what the window covers, from the key and from the one list behind it.
func (c *reader) binding(key []byte, old, word uint32) {
	list := c.take("a list", 64)
	c.wantZeros("a list", list[16:])
	b := fakeverbs.Binding{
		RKey: old, NewRKey: old&^0xff | word&0xff, Length: binary.BigEndian.Uint64(key[24:]),
		Addr: binary.BigEndian.Uint64(list[8:]), LKey: binary.BigEndian.Uint32(list[4:]),
	}
	if n := uint64(binary.BigEndian.Uint32(list)); n != b.Length {
		c.note("a window of %d bytes, of a list of %d", b.Length, n)
	}
	for bit, access := range map[uint8]uint32{
		0x40: abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC, 0x20: abi.IB_UVERBS_ACCESS_REMOTE_WRITE,
		0x10: abi.IB_UVERBS_ACCESS_REMOTE_READ, 0x08: abi.IB_UVERBS_ACCESS_LOCAL_WRITE,
	} {
		if key[2]&bit != 0 {
			b.Access |= access
		}
	}
	if key[2]&^0x78 != 0 {
		c.note("unknown rights of a key: %#x", key[2])
	}
	switch start := binary.BigEndian.Uint64(key[16:]); start {
	case b.Addr:
	case 0:
		b.Access |= abi.IB_UVERBS_ACCESS_ZERO_BASED
	default:
		c.note("a window starts at %#x, and its list at %#x", start, b.Addr)
	}
	c.Bind = b
}

// address reads where a datagram goes.
func (c *reader) address(b []byte) {
	c.wantZeros("an address", b[4:8])
	c.wantZeros("an address", b[16:20])
	num := binary.BigEndian.Uint32(b[8:])
	if num>>24 != 0x80 {
		c.note("the word with the number of the peer's QP is %#x", num)
	}
	c.To = fakeverbs.Destination{QPN: num & 0xffffff, QKey: binary.BigEndian.Uint32(b)}
	port, word := binary.BigEndian.Uint16(b[14:]), binary.BigEndian.Uint32(b[28:])
	a := abi.IbUverbsAhAttr{PortNum: 1, IsGlobal: 1, StaticRate: b[12] >> 4}
	copy(a.Grh.Dgid[:], b[32:48])
	a.Grh.SgidIndex, a.Grh.FlowLabel = uint8(word>>20), word&0xfffff
	a.Grh.TrafficClass, a.Grh.HopLimit = b[26], b[27]
	if c.q.m.options.Infiniband {
		a.Sl, a.Dlid, a.SrcPathBits = b[12]&0xf, port, b[13]&0x7f
		a.IsGlobal = uint8(word >> 30 & 1)
		if word>>31 != 0 || b[13]&0x80 != 0 {
			c.note("reserved bits of the address are set: %x", b)
		}
		c.wantZeros("an address of InfiniBand, which has no MAC,", b[20:26])
		c.To.AH = &fakeverbs.AH{Attr: a}
		return
	}
	if a.Sl = b[12] & 0xf >> 1; b[12]&1 != 0 || b[13] != 0 || word>>28 != 0 {
		c.note("the address says of RoCE what is InfiniBand's: %x", b)
	}
	c.roce(&a, b[20:26], port)
}

// roce holds an address to what the kernel was asked for, and told.
func (c *reader) roce(a *abi.IbUverbsAhAttr, mac []byte, port uint16) {
	if want := mlx5MAC(a.Grh.Dgid); string(mac) != string(want[:]) {
		c.note("the MAC is %x, and the kernel said %x", mac, want)
	}
	gid, err := c.q.m.k.GID(uint32(a.Grh.SgidIndex))
	if err != nil {
		c.note("the address goes out from GID %d, which is none", a.Grh.SgidIndex)
		return
	}
	label := a.Grh.FlowLabel
	switch {
	case gid.GidType != abi.IB_UVERBS_GID_TYPE_ROCE_V2:
		if port != 0 {
			c.note("RoCE v1 has no port of UDP, and the address has %#x", port)
		}
	case port < 0xc000:
		c.note("the port of UDP is %#x", port)
	case label != 0 && port != uint16(label&0x3fff^label>>14)|0xc000:
		c.note("the port of UDP is %#x, and the flow label %#x", port, label)
	}
	for ah := range fakeverbs.Objects[*fakeverbs.AH](c.q.m.k) {
		if ah.Attr.Grh == a.Grh && ah.Attr.Sl&7 == a.Sl {
			c.To.AH = ah
			return
		}
	}
	c.note("the kernel knows of no such address")
}
