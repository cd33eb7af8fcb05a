package uverbs

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend queues work requests for sending and rings the doorbell once. It returns the
// number n of work requests that it queued. wrs[:n] belong to the device and will complete;
// wrs[n:] still belong to the caller. A successful call allocates nothing.
//
//   - n == len(wrs) and err == nil: all are queued.
//   - n < len(wrs): err says why wrs[n] was refused. ErrQueueFull means that the queue is full.
//   - n == len(wrs) and err != nil: all are queued, but the doorbell failed. This happens
//     with drivers whose doorbell is a system call that can fail on a working QP (rxe).
//     Don't post the requests again. The next PostSend rings the doorbell for everything
//     that is queued, even if it has no requests. Without one, the requests wait until the
//     QP is put into ERR, which flushes them, or into RESET, which drops them.
//
// If a request is refused and the doorbell fails too, n < len(wrs) and errors.Is finds both
// errors.
//
// C: ibv_post_send
func (qp *QP) PostSend(wrs []verbs.SendWR) (int, error) {
	ring := qp.ring // a load after the lock would wait for it
	qp.sq.Lock()
	if !qp.fastPath {
		qp.sq.Unlock()
		n, err := qp.postSendSlow(wrs)
		return n, qp.sendError(err)
	}
	n, err := ring.PostSend(wrs)
	qp.sq.Unlock()
	if err == nil {
		return n, nil
	}
	if err == driver.ErrQPFailing {
		qp.onError(qp.generation.Load())
		rest, err := qp.postSendSlow(wrs[n:]) // to be flushed
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

// PostRecv queues buffers for incoming sends. It follows the rules of PostSend, but has no
// doorbell that could fail: err != nil means n < len(wrs). A QP that was created with an SRQ
// refuses receives.
//
// C: ibv_post_recv
func (qp *QP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	ring := qp.ring // as in PostSend
	qp.rq.Lock()
	if !qp.fastPath {
		qp.rq.Unlock()
		n, err := qp.postRecvSlow(wrs)
		return n, qp.recvError(err)
	}
	n, err := ring.PostRecv(wrs)
	qp.rq.Unlock()
	if err == nil {
		return n, nil
	}
	if err == driver.ErrQPFailing {
		qp.onError(qp.generation.Load())
		rest, err := qp.postRecvSlow(wrs[n:]) // to be flushed
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
