package mlx5

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// sizes holds the sizes of a QP's queues. User space chooses them.
type sizes struct {
	cap         verbs.QPCap // as granted
	receives    uint32      // entries, a power of two or 0
	receiveSegs uint32      // of an entry
	blocks      uint32      // of the send queue, a power of two or 0
}

func (s *sizes) receiveBytes() int { return int(s.receives) * int(s.receiveSegs) * segmentSize }
func (s *sizes) sendBytes() int    { return int(s.blocks) * blockSize }

// Bytes of a send before its data: the first segment, and the largest addition of any
// operation, which on RC and UC is the binding of a window, and on UD the address.
const (
	bindOverhead = 16 + 48 + 64 + 64
	udOverhead   = 16 + 48
	xrcOverhead  = bindOverhead + 16
	rawOverhead  = 16 + 32
)

func overhead(t verbs.QPType) uint32 {
	switch t {
	case verbs.QPTypeUD:
		return udOverhead
	case verbs.QPTypeXRCInitiator:
		return xrcOverhead
	case verbs.QPTypeRawPacket:
		return rawOverhead
	}
	return bindOverhead
}

// sizes computes the sizes as rdma-core does. The QP is granted the room that rounding up
// adds.
func (c *mlx5Context) sizes(r *driver.CreateQP) (s sizes, err error) {
	switch r.Type {
	case verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD, verbs.QPTypeXRCInitiator, verbs.QPTypeRawPacket:
	default:
		return s, fmt.Errorf("%w: this mlx5 provider has RC, UC, UD, XRC and raw packet QPs", verbs.ErrNotSupported)
	}
	s.cap = r.Cap
	if err := c.sendSizes(&s, overhead(r.Type)); err != nil {
		return s, err
	}
	return s, c.receiveSizes(&s, r.SRQ != nil)
}

func (c *mlx5Context) sendSizes(s *sizes, overhead uint32) error {
	want, most := &s.cap, uint32(c.limits.MaxSqDescSz)
	if want.MaxSendWR == 0 {
		return nil
	}
	if want.MaxSendSGE > most/segmentSize || want.MaxInline > most {
		return tooLarge("sends", most)
	}
	size := overhead + want.MaxSendSGE*segmentSize
	if want.MaxInline > 0 {
		size = max(size, overhead+align(inlineHeader+want.MaxInline, segmentSize))
	}
	if size = align(size, blockSize); size > most {
		return tooLarge("sends", most)
	}
	bytes := uint64(want.MaxSendWR) * uint64(size)
	if bytes > uint64(c.limits.MaxSendWqebb)*blockSize {
		return fmt.Errorf("%w: %d sends of %d bytes, the device has queues of %d blocks of %d bytes",
			verbs.ErrNotSupported, want.MaxSendWR, size, c.limits.MaxSendWqebb, blockSize)
	}
	ring := pow2(uint32(bytes))
	if s.blocks = ring / blockSize; s.blocks > c.limits.MaxSendWqebb {
		return fmt.Errorf("%w: a send queue of %d blocks, the device has at most %d", verbs.ErrNotSupported, s.blocks, c.limits.MaxSendWqebb)
	}
	want.MaxSendWR, want.MaxInline = ring/size, 0
	if size > overhead { // by at least a segment; rdma-core's result is negative otherwise
		want.MaxInline = size - overhead - inlineHeader
	}
	return nil
}

func (c *mlx5Context) receiveSizes(s *sizes, shared bool) error {
	want, most := &s.cap, uint32(c.limits.MaxRqDescSz)
	if want.MaxRecvWR > c.limits.MaxRecvWr { // for an SRQ, too, as in the kernel
		return fmt.Errorf("%w: %d receives, the device's queues have at most %d", verbs.ErrNotSupported, want.MaxRecvWR, c.limits.MaxRecvWr)
	}
	if shared || want.MaxRecvWR == 0 {
		want.MaxRecvWR, want.MaxRecvSGE = 0, 0
		return nil
	}
	if want.MaxRecvSGE > most/segmentSize {
		return tooLarge("receives", most)
	}
	s.receiveSegs = pow2(max(want.MaxRecvSGE, 1))
	s.receives = max(pow2(want.MaxRecvWR), blockSize/segmentSize/min(s.receiveSegs, blockSize/segmentSize))
	want.MaxRecvWR, want.MaxRecvSGE = s.receives, s.receiveSegs
	return nil
}

func tooLarge(what string, most uint32) error {
	return fmt.Errorf("%w: the device's %s have at most %d bytes, with all SGEs and inline data", verbs.ErrNotSupported, what, most)
}
