package erdma

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Fail has the kernel stop the QP. The device then completes the work requests that it was
// told of, and would complete no others. Those posted later are therefore completed here,
// and the device is not told of them. Their completions may overtake the device's.
func (q *qp) Fail(move func() error) driver.Flushed {
	if !q.failed {
		q.failed = true
		_ = move() // fails only when the QP is past caring
	}
	f := q.flushed
	q.flushed = driver.Flushed{}
	return f
}

func (q *qp) flush(id uint64, op verbs.WCOpcode) verbs.WC {
	return verbs.WC{WRID: id, Opcode: op, QPN: q.num, Status: verbs.StatusWRFlushErr}
}

// Idle implements driver.Idler.
func (q *qp) Idle() bool { return q.failed && q.sq.isIdle() && q.rq.empty() }
