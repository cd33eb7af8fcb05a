package rxe

import "github.com/goverbs/goverbs/uverbs"

// PostRecv needs no doorbell: the kernel looks when a packet arrives. In RESET it
// would throw the receives away, and of a failed QP it flushes them only when it
// is made to look.
func (q *qp) PostRecv(wrs []uverbs.RecvWR) (int, error) {
	switch {
	case q.rq == nil:
		return 0, errNoRecvQueue
	case q.request.State() == uverbs.QPStateReset:
		return 0, errReset
	}
	n, err := q.rq.post(wrs)
	if n > 0 && q.request.Failed() {
		q.flushRecvs()
	}
	return n, err
}

// Fail has the kernel flush the receives that were posted after it flushed the
// queue by itself. Sends it flushes at every doorbell.
//
// A completion with an error may be of a QP that lives: a message that was too
// long for a receive of an SRQ does a UC or UD QP no harm, and what is polled may
// be from before a RESET. So the kernel is asked.
func (q *qp) Fail() bool {
	if s, err := q.request.QueryState(); err == nil && s != uverbs.QPStateErr {
		return false
	}
	q.flushRecvs()
	return true
}

// flushRecvs tells a QP that is in the error state to go there, upon which it
// looks at its receive queue again. With an SRQ it has none, and would only raise
// another event.
func (q *qp) flushRecvs() {
	if q.rq != nil {
		_ = q.request.MoveToError() // fails only when the QP is past caring
	}
}

// Reset moves twice. Since Linux 6.2 the kernel notes where the send queue begins
// before it empties the queue: what was on it would be sent, as the zeroes it has
// become, by the QP's next life. The second time there is nothing on it.
func (q *qp) Reset(move func() error) error {
	if err := move(); err != nil {
		return err
	}
	return move()
}
