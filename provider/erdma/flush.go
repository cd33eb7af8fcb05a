package erdma

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Flush returns the completions of work requests that were posted after the kernel stopped
// the QP. The device completes those that it was notified of before, and would complete no
// others, so it is not notified of later ones. Their completions may overtake the device's.
func (q *qp) Flush() driver.Flushed {
	q.failed = true
	f := q.flushed
	q.flushed = driver.Flushed{}
	return f
}

func (q *qp) flush(id uint64, op verbs.WCOpcode) verbs.WC {
	return verbs.WC{WRID: id, Opcode: op, QPN: q.num, Status: verbs.StatusWRFlushErr}
}

// Idle implements driver.Idler.
func (q *qp) Idle() bool { return q.failed && q.sq.isIdle() && q.rq.empty() }
