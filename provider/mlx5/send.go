package mlx5

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend queues sends and rings the doorbell once. A short request that is posted alone
// is copied to the device with the doorbell.
func (q *qp) PostSend(wrs []verbs.SendWR) (n int, err error) {
	if q.state < verbs.QPStateRTS {
		return 0, fmt.Errorf("%w: the QP is in %v, sends can be posted from RTS on", syscall.EINVAL, q.state)
	}
	s := &q.sq
	number := s.produced.Load()
	room := int(s.depth - (number - s.completed.Load()))
	n, segs := q.post(number, wrs[:min(len(wrs), room)])
	if n < len(wrs) {
		n, segs, err = q.mixed(number, wrs, n, room, segs)
	}
	if n > 0 {
		mmap.StoreRelease(&s.produced, number+uint32(n))
		q.ring(n == 1, segs)
	}
	return n, err
}

// mixed queues requests of all kinds from wrs[n] on. segs is the number of segments of the
// last one.
func (q *qp) mixed(number uint32, wrs []verbs.SendWR, n, room int, segs uint32) (int, uint32, error) {
	for n < len(wrs) {
		used, err := q.send(number+uint32(n), n < room, &wrs[n])
		if err != nil {
			return n, segs, err
		}
		n, segs = n+1, used
		if n < room {
			if more, last := q.post(number+uint32(n), wrs[n:min(len(wrs), room)]); more > 0 {
				n, segs = n+more, last
			}
		}
	}
	return n, segs, nil
}

// ring updates the doorbell record, then rings the doorbell. It passes all of a short
// request that was posted alone, else the start of the last one.
func (q *qp) ring(alone bool, segs uint32) {
	s, r := &q.sq, q.register
	q.record.set(sendWord, s.pi&indexMask)
	blocks := blocksOf(segs)
	last := s.pi - blocks
	var whole []byte
	if alone && segs > 1 && int(segs)*segmentSize <= r.half {
		whole = q.wholeOf(last, blocks)
	}
	r.ring(s.ring.At(last)[0][0], whole)
}

func blocksOf(segs uint32) uint32 { return (segs + blockSegs - 1) / blockSegs }

// send fills blocks beginning at pi, if there is room, and returns the number of segments
// used.
func (q *qp) send(number uint32, room bool, wr *verbs.SendWR) (segs uint32, err error) {
	r := request{wr: wr, op: q.ctx.lookUp(q.typ, wr.Opcode), flags: wr.Flags, sgl: wr.SGL, inline: wr.Inline}
	if err := q.check(&r); err != nil {
		return 0, err
	}
	if !room {
		return 0, verbs.ErrQueueFull
	}
	if r.op.wc == verbs.WCBindMW {
		if err := q.bind(&q.binding.BindMW, false); err != nil {
			return 0, err
		}
	}
	s := &q.sq
	s.note(number, wr.WRID, r.op.wc)
	at := s.pi * blockSegs
	segs = q.fill(at, &r) - at
	*s.segs.At(at) = segment{words((s.pi&indexMask)<<8|uint32(r.op.code), q.num<<8|segs), q.general(&r)}
	s.pi += blocksOf(segs)
	return segs, nil
}

// control returns the flags of a request except for fences.
func (q *qp) control(flags verbs.SendFlags) uint32 {
	return q.signal | uint32(flags&verbs.SendSignaled)*(ctrlCompletion/uint32(verbs.SendSignaled)) |
		uint32(flags&verbs.SendSolicited)/(uint32(verbs.SendSolicited)/ctrlSolicited)
}

// general returns the second half of the first segment: flags, and a number or a key.
func (q *qp) general(r *request) uint64 {
	flags := q.control(r.flags)
	switch {
	case r.flags&verbs.SendFence != 0:
		flags |= ctrlFence
	case q.smallFence:
		flags |= ctrlSmallFence
	}
	q.smallFence = r.op.form == formKeys
	return words(flags, q.immediate(r))
}

// immediate returns the last word of the first segment. For a binding it is the window's
// key before the binding.
func (q *qp) immediate(r *request) uint32 {
	switch {
	case r.op.imm:
		return r.wr.Imm
	case r.op.code == opSendInv:
		return r.wr.InvalidateRKey
	case r.op.form == formKeys:
		return q.binding.oldKey
	}
	return 0
}
