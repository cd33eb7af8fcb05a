package siw

import (
	"cmp"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Flush completes the work requests that the kernel does not. siw flushes its queues when a
// QP enters ERR and never looks at them again, so Flush takes back the work requests that
// were posted later. A failed QP stays failed: siw can't reuse it.
//
// The move to ERR returns after the kernel's flush, so the kernel no longer reads the queues
// here. There is one exception: the kernel flushes a QP that its user had moved to SQD or SQE once
// more, later. If Flush takes an entry back at that moment, the entry completes twice.
func (q *qp) Flush() (f driver.Flushed) {
	q.failed, q.connected = true, true // so that posts ring no doorbell
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

// PostRecv queues receives. It rings no doorbell: the kernel reads the queue when data
// arrives.
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
