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
// With an SRQ there is nothing to do, and it may not even be true: a message that
// was too long for the receive that the SRQ gave does a UC or UD QP no harm.
func (q *qp) Fail() {
	if q.rq != nil {
		q.flushRecvs()
	}
}

// flushRecvs tells a QP that is in the error state to go there, upon which it
// looks at its receive queue again.
func (q *qp) flushRecvs() {
	_ = q.request.MoveToError() // fails only when the QP is past caring
}

// Move takes part where the kernel's own part is not enough.
func (q *qp) Move(to uverbs.QPState, move func() error) error {
	switch {
	case to == uverbs.QPStateReset:
		return q.reset(move)
	case to == uverbs.QPStateSQD:
		return q.drain(move)
	case to == uverbs.QPStateRTS && q.request.State() == uverbs.QPStateSQD:
		return q.resume(move)
	}
	return move()
}

// drain makes the slot behind the sends look like one that was never used. To see
// whether the oldest send has begun, kernels newer than 6.1 look at its slot also
// where there is none: a queue that is empty, and has been around once, would be
// draining for ever, and a QP that is can go to ERR only.
func (q *qp) drain(move func() error) error {
	slots, _, _ := q.sq.Room(0)
	slots.At(0).State = 0
	return move()
}

// resume tells the kernel of the sends that were posted in SQD, at which it does
// not look by itself.
func (q *qp) resume(move func() error) error {
	if err := move(); err != nil {
		return err
	}
	_ = q.doorbell.Ring() // refused only when the QP was moved again meanwhile
	return nil
}

// reset moves twice. Since Linux 6.2 the kernel notes where the send queue begins
// before it empties the queue: what was on it would be sent, as the zeroes it has
// become, by the QP's next life. The second time there is nothing on it.
func (q *qp) reset(move func() error) error {
	if err := move(); err != nil {
		return err
	}
	return move()
}
