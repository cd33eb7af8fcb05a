package uverbs

import (
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend queues work requests for sending and tells the device once. It returns how
// many it queued, n: wrs[:n] belong to the device and will complete, wrs[n:] are the
// caller's. A successful call allocates nothing.
//
//   - n == len(wrs) and err == nil: all are queued, and the device knows.
//   - n < len(wrs): err says why wrs[n] was refused. A full queue is ErrQueueFull.
//   - n == len(wrs) and err != nil: all are queued, but the system call failed that
//     tells the device. This happens with drivers whose doorbell is a system call that
//     can fail on a working QP (rxe). Don't post the requests again: the next PostSend
//     tells the device of all that is queued, even one without requests; otherwise they
//     wait until the QP is put into ERR, which flushes them, or RESET, which drops them.
//
// Both may happen at once. Then n < len(wrs), and errors.Is finds both reasons.
//
// C: ibv_post_send
func (qp *QP) PostSend(wrs []verbs.SendWR) (int, error) {
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

// PostRecv queues buffers for incoming sends, with the rules of PostSend, but no driver
// has to be told of them: err != nil means n < len(wrs). A QP that was created with an
// SRQ takes none.
//
// C: ibv_post_recv
func (qp *QP) PostRecv(wrs []verbs.RecvWR) (int, error) {
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
