package mlx5

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// fill writes all but the first segment of the request that begins at a segment, and
// returns its end. A segment never wraps around the end of the queue, so each is addressed
// by its free-running index.
func (q *qp) fill(at uint32, r *request) (end uint32) {
	at++
	if r.op.form == formKeys {
		return q.putKeys(at)
	}
	if q.typ == verbs.QPTypeXRCInitiator {
		*q.sq.segs.At(at) = segment{words(r.wr.SRQN, 0)}
		at++
	}
	switch {
	case r.op.form != formSend:
		*q.sq.segs.At(at) = segment{be64(r.wr.RemoteAddr), words(r.wr.RKey, 0)}
		at++
	case r.ah != nil:
		at = q.putAddress(at, r)
	case q.typ == verbs.QPTypeRawPacket:
		return q.putFrame(at, r)
	}
	if r.op.form == formAtomic {
		*q.sq.segs.At(at) = r.operands()
		at++
	}
	if r.inline != nil {
		return q.putInline(at, r.inline)
	}
	return q.putSGL(at, r.sgl)
}

func (r *request) operands() segment {
	if r.op.code == opCompare {
		return segment{be64(r.wr.Swap), be64(r.wr.CompareAdd)}
	}
	return segment{be64(r.wr.CompareAdd)}
}

func (q *qp) putAddress(at uint32, r *request) (end uint32) {
	for i, s := range r.ah.av {
		*q.sq.segs.At(at + uint32(i)) = s
	}
	first := q.sq.segs.At(at)
	first[0] = words(r.wr.RemoteQKey, 0)
	first[1] |= words(r.wr.RemoteQPN&cqeNumberMask|extendedAV, 0)
	return at + uint32(len(r.ah.av))
}

// putSGL writes SGEs. It leaves out empty ones, because a length of 0 means 2 GiB.
func (q *qp) putSGL(at uint32, sgl []verbs.SGE) (end uint32) {
	for i := range sgl {
		if s := &sgl[i]; s.Length > 0 {
			*q.sq.segs.At(at) = segment{words(s.Length, s.LKey), be64(s.Addr)}
			at++
		}
	}
	return at
}

// putInline writes the length and then the data, which may wrap around the end of the
// queue. Without data it writes no segment.
func (q *qp) putInline(at uint32, data []byte) (end uint32) {
	if len(data) == 0 {
		return at
	}
	end = at + align(uint32(len(data))+inlineHeader, segmentSize)/segmentSize
	first := abi.Bytes(q.sq.segs.At(at))
	*q.sq.segs.At(at) = segment{words(uint32(len(data))|inlineBit, 0)}
	copy(first[inlineHeader:], data)
	if rest := segmentSize - inlineHeader; len(data) > rest {
		data = data[rest:]
		start := int((at+1)*segmentSize) & (len(q.sq.memory) - 1)
		n := copy(q.sq.memory[start:], data)
		copy(q.sq.memory, data[n:])
	}
	return end
}
