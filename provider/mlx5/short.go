package mlx5

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// A device that was told so leaves short messages, and what short READs and atomics fetch, in
// the completion, instead of the memory that the work request names.

// message is what an entry holds of one, or nil.
func (q *cq) message(i, last uint32) []byte {
	if !q.ctx.tuning.short {
		return nil
	}
	n := be32(q.at(i).byteCount) // compared as it is: an int of 32 bits would be negative
	switch {
	case last&cqeInside != 0:
		return abi.Bytes(q.at(i))[:min(n, cqeInsideSize)]
	case last&cqeBefore != 0 && q.step > 1:
		return abi.Bytes(q.front(i))[:min(n, cqeSize)]
	}
	return nil
}

// scatter does what the device left to us: it copies a message to the SGEs of a work request,
// in segments from at on. The memory must be of an open region, or none.
func (c *mlx5Context) scatter(segs *mmap.Array[segment], at, most uint32, data []byte) verbs.Status {
	null, dropped := c.NullKey()
	for end := at + most; at != end && len(data) > 0; at++ {
		s := segs.At(at)
		length, key := be32(uint32(s[0])), be32(uint32(s[0]>>32))
		if length == 0 {
			break
		}
		n := int(min(uint64(len(data)), uint64(length)))
		if (!dropped || key != null) && !c.device.Write(key, be64(s[1]), data[:n]) {
			return verbs.StatusLocProtErr
		}
		data = data[n:]
	}
	if len(data) > 0 {
		return verbs.StatusLocLenErr
	}
	return verbs.StatusSuccess
}

// fetched puts what a READ or an atomic brought where the request that begins at a block wants it.
func (s *sendQueue) fetched(c *mlx5Context, index uint16, data []byte, wc *verbs.WC) verbs.Status {
	first, front := uint32(index)*blockSegs, uint32(2)
	switch wc.Opcode {
	case verbs.WCRDMARead:
	case verbs.WCCompareSwap, verbs.WCFetchAdd:
		front++
	default:
		return verbs.StatusGeneralErr
	}
	segs := be32(uint32(s.segs.At(first)[0]>>32)) & maxSegs
	return c.scatter(&s.segs, first+front, max(segs, front)-front, data[:min(len(data), int(wc.ByteLen))])
}
