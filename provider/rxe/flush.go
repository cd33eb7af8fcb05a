package rxe

import "github.com/goverbs/goverbs/verbs"

// PostRecv queues receives. It rings no doorbell: the kernel reads the queue when a packet
// arrives. It refuses receives in RESET, because the kernel would discard them.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	switch {
	case q.rq == nil:
		return 0, errNoRecvQueue
	case q.state == verbs.QPStateReset:
		return 0, errReset
	}
	return q.rq.post(wrs)
}

// FlushedByErr reports whether the QP has its own receive queue. The kernel flushes
// receives only when the QP is moved to ERR, also from ERR. It flushes sends at every
// doorbell.
//
// With an SRQ there is nothing to flush. A failed completion does not even mean that the QP
// failed: a UC or UD QP survives a message that was too long for the receive that the SRQ
// supplied.
func (q *qp) FlushedByErr() bool { return q.rq != nil }
