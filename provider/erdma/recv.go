package erdma

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// PostRecv queues receives. It rings for each receive, because the doorbell takes one.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (n int, err error) {
	if q.state == verbs.QPStateReset {
		return 0, fmt.Errorf("%w: the QP is in %v; receives can be posted from INIT on", syscall.EINVAL, q.state)
	}
	pi := q.rq.produced.Load()
	room := q.rq.room(pi)
	for i := range wrs {
		sgl := wrs[i].SGL // read once: the slice that is checked is used
		if _, err := driver.SumSGL(sgl, q.maxRecvSGE); err != nil {
			return i, err
		}
		if q.failed {
			q.flushed.Recv = append(q.flushed.Recv, q.flush(wrs[i].WRID, verbs.WCRecv))
			continue
		}
		if uint32(i) >= room {
			return i, verbs.ErrQueueFull
		}
		q.receive(pi, wrs[i].WRID, sgl)
		pi++
	}
	if q.failed {
		return len(wrs), driver.ErrQPFailing
	}
	return len(wrs), nil
}

// receive fills the entry at pi and rings the doorbell.
func (q *qp) receive(pi uint32, id uint64, sgl []verbs.SGE) {
	e := q.rq.blocks.At(pi)
	word := uint64(q.num)<<32 | uint64(uint16(pi+1))
	*e = block{word}
	if len(sgl) > 0 {
		e[2], e[3] = sgeWords(&sgl[0])
	}
	q.rq.note(pi, id, 1)
	q.rq.publish(pi + 1)
	mmap.StoreRelease64(q.record.word[1], word)
	q.ctx.rdb.Store64(q.rdb, word)
}

// sgeWords returns an SGE as two words of an entry, in the order of verbs.
func sgeWords(s *verbs.SGE) (addr, rest uint64) {
	return s.Addr, uint64(s.Length) | uint64(s.LKey)<<32
}
