package mlx5

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// If the QP is created so, the device writes short messages, and the results of short READs
// and atomics if all sends complete, to the completion instead of to the work request's memory. One flag
// of the QP concerns both directions, so it is set only if the CQs of both directions allow it.

// MaxCQInline implements driver.CQInliner.
func (c *mlx5Context) MaxCQInline() uint32 { return cqeSize }

// message returns the message in an entry of a QP, or nil.
func (q *cq) message(p *qp, i, last uint32) []byte {
	if !p.short {
		return nil
	}
	n := be32(q.at(i).byteCount) // compared as unsigned: an int of 32 bits would be negative
	switch {
	case last&cqeInside != 0:
		return abi.Bytes(q.at(i))[:min(n, cqeInsideSize)]
	case last&cqeBefore != 0 && q.step > 1:
		return abi.Bytes(q.front(i))[:min(n, cqeSize)]
	}
	return nil
}

// scatter copies a message to the SGEs of a work request, in segments from at on. The
// memory must be in an open region.
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

// fetched copies the result of a READ or an atomic to the memory of the request that begins
// at a block.
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
