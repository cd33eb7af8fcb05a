package mlx5

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// A raw packet QP sends and receives whole Ethernet frames.

const (
	ethernetHeader = 18 // of a frame with a VLAN's tag
	ethernetStart  = 2  // bytes of it in the segment before the frame's

	fillChecksums = 0xc0 << 24 // of layers 3 and 4
	layersRight   = 0x06       // of the same
	headerIPv4    = 2
)

// frameHeader returns the number of bytes of each frame that must be in the request. Older
// devices need them; if the kernel does not report it, the device is taken for an old one.
func (c *mlx5Context) frameHeader() int {
	if c.limits.EthMinInline == abi.MLX5_USER_INLINE_MODE_NONE {
		return 0
	}
	return ethernetHeader
}

// checkFrame checks a frame, and copies the start that the device wants in the request.
func (q *qp) checkFrame(r *request) error {
	if r.flags&verbs.SendIPCsum != 0 && !q.ctx.checksums {
		return fmt.Errorf("%w: this mlx5 device fills in no checksums", verbs.ErrNotSupported)
	}
	n := q.ctx.frameHeader()
	if n == 0 {
		return nil
	}
	r.front = q.front[:n]
	if r.inline != nil {
		if len(r.inline) < n {
			return errShortFrame(len(r.inline), n)
		}
		copy(r.front, r.inline)
		r.inline = r.inline[n:]
		return nil
	}
	rest := r.front
	for _, s := range r.sgl {
		part := rest[:min(len(rest), int(s.Length))]
		if !q.ctx.device.Read(s.LKey, s.Addr, part) {
			return fmt.Errorf("%w: this mlx5 device wants the first %d bytes of a frame in the request, and key %#x opens no region that has them",
				verbs.ErrInvalidWR, n, s.LKey)
		}
		if rest = rest[len(part):]; len(rest) == 0 {
			return nil
		}
	}
	return errShortFrame(n-len(rest), n)
}

func errShortFrame(length, least int) error {
	return fmt.Errorf("%w: a frame of %d bytes, this mlx5 device wants %d at least", verbs.ErrInvalidWR, length, least)
}

// putFrame writes the segment before a frame, and the frame.
func (q *qp) putFrame(at uint32, r *request) (end uint32) {
	var checksums, start uint32
	if r.flags&verbs.SendIPCsum != 0 {
		checksums = fillChecksums
	}
	if len(r.front) > 0 {
		start = uint32(len(r.front))<<16 | uint32(r.front[0])<<8 | uint32(r.front[1])
	}
	*q.sq.segs.At(at) = segment{words(0, checksums), words(0, start)}
	at++
	if len(r.front) > 0 {
		copy(abi.Bytes(q.sq.segs.At(at)), r.front[ethernetStart:])
		at++
	}
	if r.inline != nil {
		return q.putInline(at, r.inline)
	}
	skip := uint32(len(r.front))
	for i := range r.sgl {
		s := r.sgl[i]
		n := min(skip, s.Length)
		skip -= n
		at = q.putSGL(at, []verbs.SGE{{Addr: s.Addr + uint64(n), Length: s.Length - n, LKey: s.LKey}})
	}
	return at
}

// describeFrame sets the flag of a frame whose checksums the device found right. It returns
// true, as complete does.
func (e *cqe) describeFrame(wc *verbs.WC) bool {
	if e.right&layersRight == layersRight && e.headers>>2&3 == headerIPv4 {
		wc.Flags |= verbs.WCIPCsumOK
	}
	return true
}
