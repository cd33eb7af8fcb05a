package rxe

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// PostRecv needs no doorbell: the kernel looks when a packet arrives. In RESET it
// would throw the receives away.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	switch {
	case q.rq == nil:
		return 0, errNoRecvQueue
	case q.state == verbs.QPStateReset:
		return 0, errReset
	}
	return q.rq.post(wrs)
}

// Fail has the kernel flush the receives that were posted after it flushed the
// queue by itself: a QP that is in the error state and told to go there looks at its
// receive queue again. Sends it flushes at every doorbell.
//
// With an SRQ there is nothing to do, and it may not even be true: a message that
// was too long for the receive that the SRQ gave does a UC or UD QP no harm.
func (q *qp) Fail(move func() error) driver.Flushed {
	if q.rq != nil {
		_ = move() // fails only when the QP is past caring
	}
	return driver.Flushed{}
}
