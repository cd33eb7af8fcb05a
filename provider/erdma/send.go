package erdma

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend queues sends and rings the doorbell once.
func (q *qp) PostSend(wrs []verbs.SendWR) (n int, err error) {
	pi := q.sq.produced.Load()
	room := q.sq.room(pi)
	for n < len(wrs) {
		var blocks uint32
		if blocks, err = q.send(pi, room, &wrs[n]); err != nil {
			break
		}
		pi += blocks
		room -= blocks
		n++
	}
	switch {
	case n == 0:
	case q.failed:
		if err == nil {
			err = driver.ErrQPFailing
		}
	default:
		q.sq.publish(pi)
		q.ring(pi)
	}
	return n, err
}

// ring updates the doorbell record, then rings the doorbell for the sends before pi.
func (q *qp) ring(pi uint32) {
	v := uint64(q.num)<<hdrQPNShift | uint64(uint16(pi))
	mmap.StoreRelease64(q.record.word[0], v)
	q.ctx.sdb.Store64(q.sdb, v)
}

// send fills blocks beginning at pi, if there is room, and returns their number.
func (q *qp) send(pi, room uint32, wr *verbs.SendWR) (blocks uint32, err error) {
	r := request{wr: wr, op: lookUp(wr.Opcode), flags: wr.Flags, sgl: wr.SGL, inline: wr.Inline}
	if err := q.check(&r); err != nil {
		return 0, err
	}
	if q.failed {
		q.flushed.Send = append(q.flushed.Send, q.flush(wr.WRID, wcOpcodes[r.op.code]))
		return 0, nil
	}
	blocks = r.blocks()
	if blocks > room {
		return 0, verbs.ErrQueueFull
	}
	q.sq.note(pi, wr.WRID, blocks)
	q.fill(pi, &r)
	// The header is written last. The device reads it after the doorbell at the earliest.
	q.sq.blocks.At(pi)[0] = q.flags | r.header() | uint64(blocks-1)<<hdrBlocksShift | uint64(uint16(pi+blocks))
	return blocks, nil
}
