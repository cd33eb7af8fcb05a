package siw

import (
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// CQ is siw's side of a completion queue.
type CQ struct {
	cq     *fakeverbs.CQ
	ring   *ring
	notify *atomic.Uint32
}

// Complete writes an entry, of which the caller fills all but Flags, and raises
// an event if user space asked for one. It reports whether there was room; a CQ
// that overflows says so by an asynchronous event.
func (q *CQ) Complete(e abi.SiwCqe) bool {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	return q.complete(e, false)
}

// complete looks whether an event is wanted after the entry is there: user space asks for
// one, then looks for entries. Of solicited completions the driver knows sends only.
func (q *CQ) complete(e abi.SiwCqe, solicited bool) bool {
	if !q.ring.put(&e) {
		q.cq.Overflow()
		return false
	}
	asked := q.ring.ReadRecord(q.notify)
	if asked&abi.SIW_NOTIFY_NEXT_COMPLETION != 0 || solicited && asked&abi.SIW_NOTIFY_SOLICITED != 0 {
		q.notify.Store(abi.SIW_NOTIFY_NOT)
		q.cq.RaiseEvent()
	}
	return true
}

// QP is siw's side of a QP's queues.
type QP struct {
	qp *fakeverbs.QP
	sq *ring
	rq *ring
}

func (q *QP) EnterError() {
	if q.qp.CurState != abi.IB_QPS_ERR {
		q.qp.CurState = abi.IB_QPS_ERR
		q.flush()
	}
}

func (q *QP) flush() {
	q.qp.FlushTaken()
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

func (q *QP) sent(e *abi.SiwSqe, status uint16) {
	CQOf(q.qp.SendCQ).complete(abi.SiwCqe{Id: e.Id, Opcode: e.Opcode, Status: status, QpId: uint64(q.qp.Num)}, e.Flags&abi.SIW_WQE_SOLICITED != 0)
}

func (q *QP) received(id uint64, n uint32, status uint16) {
	CQOf(q.qp.RecvCQ).complete(abi.SiwCqe{Id: id, Opcode: abi.SIW_OP_RECEIVE, Bytes: n, Status: status, QpId: uint64(q.qp.Num)}, false)
}

// TakeSend takes the oldest send, as the driver does when it starts on it.
func (q *QP) TakeSend() (e abi.SiwSqe, ok bool) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	return q.sq.takeSend()
}

// TakeRecv takes the oldest receive, of the QP or its SRQ, as for an arriving SEND.
func (q *QP) TakeRecv() (e abi.SiwRqe, ok bool) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	return q.takeRecv()
}

// takeRecv finds nothing where there is neither a receive queue nor an SRQ.
func (q *QP) takeRecv() (e abi.SiwRqe, ok bool) {
	switch {
	case q.rq != nil:
		return q.rq.takeRecv()
	case q.qp.SRQ != nil:
		return SRQOf(q.qp.SRQ).rq.takeRecv()
	}
	return e, false
}

func (q *QP) Carry(status uint32) bool {
	e, ok := q.sq.takeSend()
	if ok && (status != 0 || e.Flags&abi.SIW_WQE_SIGNALLED != 0) {
		q.sent(&e, uint16(status))
	}
	return ok
}

// Receive breaks the connection when there is no receive: iWARP has no
// receiver-not-ready.
func (q *QP) Receive(n uint32) bool {
	e, ok := q.takeRecv()
	if !ok {
		q.EnterError()
		return false
	}
	q.received(e.Id, n, 0)
	return true
}

// SRQ is siw's side of a shared receive queue.
type SRQ struct {
	srq *fakeverbs.SRQ
	rq  *ring
}

// TakeRecv takes the oldest receive, as for an arriving SEND.
func (q *SRQ) TakeRecv() (e abi.SiwRqe, ok bool) {
	q.srq.Kernel().Lock()
	defer q.srq.Kernel().Unlock()
	return q.rq.takeRecv()
}
