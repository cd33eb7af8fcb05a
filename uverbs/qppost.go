package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// PostSend queues work requests for sending and tells the device once. It
// returns how many it queued; when that is less than all, err says why the next
// one was refused, and the ones before it are on their way. A full queue is
// ErrQueueFull. What is accepted allocates nothing.
//
// C: ibv_post_send
func (qp *QP) PostSend(wrs []SendWR) (int, error) {
	n, err := qp.postSend(wrs)
	if err == driver.ErrQPFailing {
		qp.failed(qp.life.Load())
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
	ring := qp.ring // before the lock, which holds up what is loaded behind it
	qp.sq.Lock()
	if qp.odd {
		qp.sq.Unlock()
		return qp.postSendOdd(wrs)
	}
	n, err := ring.PostSend(wrs)
	qp.sq.Unlock()
	return n, err
}

// PostRecv queues buffers for incoming sends, with the rules of PostSend. A QP
// that was created with an SRQ takes none.
//
// C: ibv_post_recv
func (qp *QP) PostRecv(wrs []RecvWR) (int, error) {
	n, err := qp.postRecv(wrs)
	if err == driver.ErrQPFailing {
		qp.failed(qp.life.Load())
		var rest int
		rest, err = qp.postRecv(wrs[n:])
		n += rest
	}
	if err != nil {
		return n, qp.fail("post a receive to", err, "")
	}
	return n, nil
}

func (qp *QP) postRecv(wrs []RecvWR) (int, error) {
	ring := qp.ring // as in postSend
	qp.rq.Lock()
	if qp.odd {
		qp.rq.Unlock()
		return qp.postRecvOdd(wrs)
	}
	n, err := ring.PostRecv(wrs)
	qp.rq.Unlock()
	return n, err
}
