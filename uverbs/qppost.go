package uverbs

// PostSend queues work requests for sending and tells the device once. It
// returns how many it queued; when that is less than all, err says why the next
// one was refused, and the ones before it are on their way. A full queue is
// ErrQueueFull. What is accepted allocates nothing.
//
// C: ibv_post_send
func (qp *QP) PostSend(wrs []SendWR) (int, error) {
	n, err := qp.postSend(wrs)
	if err == ErrQPFailing {
		qp.failed()
		var rest int
		rest, err = qp.postSend(wrs[n:]) // to be flushed
		n += rest
	}
	if err != nil {
		return n, qp.fail("post a send to", err, postHint(err))
	}
	return n, nil
}

func (qp *QP) postSend(wrs []SendWR) (int, error) {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	if qp.closed {
		return 0, ErrClosed
	}
	return qp.ring.PostSend(wrs)
}

// PostRecv queues buffers for incoming sends, with the rules of PostSend. A QP
// that was created with an SRQ takes none.
//
// C: ibv_post_recv
func (qp *QP) PostRecv(wrs []RecvWR) (int, error) {
	qp.rq.Lock()
	defer qp.rq.Unlock()
	if qp.closed {
		return 0, qp.fail("post a receive to", ErrClosed, "")
	}
	n, err := qp.ring.PostRecv(wrs)
	if err != nil {
		return n, qp.fail("post a receive to", err, "")
	}
	return n, nil
}

// failed lets the provider complete what the device will not. The first sign of
// the error state triggers it: a failed completion, or a move to that state.
//
// It returns when that is done, also when another goroutine does it: who comes
// here from a refused post goes on to post to the provider's flush.
func (qp *QP) failed() {
	if qp.failing.Load() {
		return
	}
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	if !qp.closed && !qp.failing.Load() {
		qp.failing.Store(qp.ring.Fail())
	}
}
