package fakeverbs

import (
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
)

// SIWCQ is siw's side of a completion queue.
type SIWCQ struct {
	cq     *CQ
	ring   *siwRing
	notify *atomic.Uint32
}

// Complete writes an entry, of which the caller fills all but Flags, and raises
// an event if user space asked for one. It reports whether there was room; a CQ
// that overflows says so by an asynchronous event.
func (q *SIWCQ) Complete(e abi.SiwCqe) bool {
	q.cq.k.mu.Lock()
	defer q.cq.k.mu.Unlock()
	return q.complete(e, false)
}

// complete looks whether an event is wanted after the entry is there: user space asks for
// one, then looks for entries. Of solicited completions the driver knows sends only.
func (q *SIWCQ) complete(e abi.SiwCqe, solicited bool) bool {
	if !q.ring.put(&e) {
		q.cq.overflow()
		return false
	}
	asked := q.ring.record(q.notify)
	if asked&abi.SIW_NOTIFY_NEXT_COMPLETION != 0 || solicited && asked&abi.SIW_NOTIFY_SOLICITED != 0 {
		q.notify.Store(abi.SIW_NOTIFY_NOT)
		q.cq.event()
	}
	return true
}

// SIWQP is siw's side of a QP's queues.
type SIWQP struct {
	qp *QP
	sq *siwRing
	rq *siwRing
}

func (q *SIWQP) fail() {
	if q.qp.state != abi.IB_QPS_ERR {
		q.qp.state = abi.IB_QPS_ERR
		q.flush()
	}
}

func (q *SIWQP) flush() {
	q.qp.flushTaken()
	for q.sq != nil {
		e, ok := q.sq.takeSend()
		if !ok {
			break
		}
		q.sent(&e, abi.SIW_WC_WR_FLUSH_ERR)
	}
	for q.rq != nil {
		e, ok := q.rq.takeRecv()
		if !ok {
			break
		}
		q.received(e.Id, 0, abi.SIW_WC_WR_FLUSH_ERR)
	}
}

func (q *SIWQP) sent(e *abi.SiwSqe, status uint16) {
	q.qp.SendCQ.SIW.complete(abi.SiwCqe{Id: e.Id, Opcode: e.Opcode, Status: status, QpId: uint64(q.qp.Num)}, e.Flags&abi.SIW_WQE_SOLICITED != 0)
}

func (q *SIWQP) received(id uint64, n uint32, status uint16) {
	q.qp.RecvCQ.SIW.complete(abi.SiwCqe{Id: id, Opcode: abi.SIW_OP_RECEIVE, Bytes: n, Status: status, QpId: uint64(q.qp.Num)}, false)
}

// TakeSend takes the oldest send, as the driver does when it starts on it.
func (q *SIWQP) TakeSend() (e abi.SiwSqe, ok bool) {
	q.qp.k.mu.Lock()
	defer q.qp.k.mu.Unlock()
	return q.sq.takeSend()
}

// TakeRecv takes the oldest receive, of the QP or its SRQ, as for an arriving SEND.
func (q *SIWQP) TakeRecv() (e abi.SiwRqe, ok bool) {
	q.qp.k.mu.Lock()
	defer q.qp.k.mu.Unlock()
	return q.takeRecv()
}

// takeRecv finds nothing where there is neither a receive queue nor an SRQ.
func (q *SIWQP) takeRecv() (e abi.SiwRqe, ok bool) {
	switch {
	case q.rq != nil:
		return q.rq.takeRecv()
	case q.qp.srq != nil:
		return q.qp.srq.SIW.rq.takeRecv()
	}
	return e, false
}

func (q *SIWQP) carry(status uint32) bool {
	e, ok := q.sq.takeSend()
	if ok && (status != 0 || e.Flags&abi.SIW_WQE_SIGNALLED != 0) {
		q.sent(&e, uint16(status))
	}
	return ok
}

// receive breaks the connection when there is no receive: iWARP has no
// receiver-not-ready.
func (q *SIWQP) receive(n uint32) bool {
	e, ok := q.takeRecv()
	if !ok {
		q.fail()
		return false
	}
	q.received(e.Id, n, 0)
	return true
}

// SIWSRQ is siw's side of a shared receive queue.
type SIWSRQ struct {
	srq *SRQ
	rq  *siwRing
}

// TakeRecv takes the oldest receive, as for an arriving SEND.
func (q *SIWSRQ) TakeRecv() (e abi.SiwRqe, ok bool) {
	q.srq.k.mu.Lock()
	defer q.srq.k.mu.Unlock()
	return q.rq.takeRecv()
}
