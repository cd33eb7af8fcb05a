package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// PostSend queues work requests for sending and tells the device once. It
// returns how many it queued; when that is less than all, err says why the next
// one was refused, and the ones before it are on their way. A full queue is
// ErrQueueFull. What is accepted allocates nothing.
//
// C: ibv_post_send
func (qp *QP) PostSend(wrs []SendWR) (int, error) {
	ring := qp.ring // before the lock, which holds up what is loaded behind it
	qp.sq.Lock()
	if qp.odd {
		qp.sq.Unlock()
		n, err := qp.postSendOdd(wrs)
		return n, qp.sendError(err)
	}
	n, err := ring.PostSend(wrs)
	qp.sq.Unlock()
	if err == nil {
		return n, nil
	}
	if err == driver.ErrQPFailing {
		qp.failed(qp.life.Load())
		rest, err := qp.postSendOdd(wrs[n:]) // to be flushed
		return n + rest, qp.sendError(err)
	}
	return n, qp.sendError(err)
}

func (qp *QP) sendError(err error) error {
	if err == nil {
		return nil
	}
	return qp.fail("post a send to", err, postHint(err))
}

// PostRecv queues buffers for incoming sends, with the rules of PostSend. A QP
// that was created with an SRQ takes none.
//
// C: ibv_post_recv
func (qp *QP) PostRecv(wrs []RecvWR) (int, error) {
	ring := qp.ring // as in PostSend
	qp.rq.Lock()
	if qp.odd {
		qp.rq.Unlock()
		n, err := qp.postRecvOdd(wrs)
		return n, qp.recvError(err)
	}
	n, err := ring.PostRecv(wrs)
	qp.rq.Unlock()
	if err == nil {
		return n, nil
	}
	if err == driver.ErrQPFailing {
		qp.failed(qp.life.Load())
		rest, err := qp.postRecvOdd(wrs[n:]) // to be flushed
		return n + rest, qp.recvError(err)
	}
	return n, qp.recvError(err)
}

func (qp *QP) recvError(err error) error {
	if err == nil {
		return nil
	}
	return qp.fail("post a receive to", err, "")
}
