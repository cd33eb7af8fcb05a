package siw

import (
	"cmp"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Fail completes what the kernel will not. siw flushes its queues when a QP goes to
// the error state and never looks at them again, so whatever was posted after that is
// taken back here. A QP that failed stays so: siw lets none live again.
//
// The move to the error state comes first: it returns with the kernel's flush
// done. Only a QP that the caller had moved to SQD or SQE is flushed once more
// later, and an entry that this takes back at that moment would complete twice.
func (q *qp) Fail(move func() error) (f driver.Flushed) {
	if !q.failed {
		q.failed, q.connected = true, true // the kernel is asked nothing any more
		_ = move()                         // fails only when the QP is past caring
	}
	for e, word := range q.sq.Retract {
		f.Send = append(f.Send, q.flushed(e.Id, opcodeOf(uint8(word>>24))))
	}
	if q.rq == nil {
		return f
	}
	for e := range q.rq.ring.Retract {
		f.Recv = append(f.Recv, q.flushed(e.Id, verbs.WCRecv))
	}
	return f
}

func (q *qp) flushed(wrID uint64, op verbs.WCOpcode) verbs.WC {
	return verbs.WC{WRID: wrID, Opcode: op, QPN: q.num, Status: verbs.StatusWRFlushErr}
}

// PostRecv needs no doorbell: the kernel looks when data arrives.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	switch {
	case q.rq == nil:
		return 0, errNoRecvQueue
	case q.failed:
		n, err := q.rq.post(wrs)
		return n, cmp.Or(err, driver.ErrQPFailing)
	}
	return q.rq.post(wrs)
}
