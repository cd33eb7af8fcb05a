package fakeverbs

import (
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
)

// SIWCQ is siw's side of a completion queue.
type SIWCQ struct {
	cq     *CQ
	ring   *mmap.FlagProducer[abi.SiwCqe]
	notify *atomic.Uint32
}

// Complete writes an entry, of which the caller fills all but Flags, and raises
// an event if user space asked for one. It reports whether there was room; a CQ
// that overflows says so by an asynchronous event.
func (q *SIWCQ) Complete(e abi.SiwCqe) bool {
	q.cq.k.mu.Lock()
	defer q.cq.k.mu.Unlock()
	return q.complete(e)
}

func (q *SIWCQ) complete(e abi.SiwCqe) bool {
	slots, room := q.ring.Room(1)
	if room == 0 {
		q.cq.overflow()
		return false
	}
	slot := slots.At(0)
	slot.Id, slot.Bytes, slot.ImmData, slot.QpId = e.Id, e.Bytes, e.ImmData, e.QpId
	q.ring.Stage(0, slot, mmap.Valid|uint32(e.Opcode)<<8|uint32(e.Status)<<16)
	q.ring.PublishBehind(1) // for its order: user space arms, then looks; this is seen, then looks
	if q.notify.Load()&abi.SIW_NOTIFY_NEXT_COMPLETION != 0 {
		q.notify.Store(abi.SIW_NOTIFY_NOT)
		q.cq.event()
	}
	return true
}

// SIWQP is siw's side of a QP's queues.
type SIWQP struct {
	qp *QP
	sq *mmap.FlagConsumer[abi.SiwSqe]
	rq *mmap.FlagConsumer[abi.SiwRqe]
}

func (q *SIWQP) fail() {
	if q.qp.state != abi.IB_QPS_ERR {
		q.qp.state = abi.IB_QPS_ERR
		q.flush()
	}
}

func (q *SIWQP) flush() {
	for q.sq != nil {
		e, ok := takeSend(q.sq)
		if !ok {
			break
		}
		q.sent(&e, abi.SIW_WC_WR_FLUSH_ERR)
	}
	for q.rq != nil {
		e, ok := takeRecv(q.rq)
		if !ok {
			break
		}
		q.received(e.Id, 0, abi.SIW_WC_WR_FLUSH_ERR)
	}
}

func (q *SIWQP) sent(e *abi.SiwSqe, status uint16) {
	q.qp.SendCQ.SIW.complete(abi.SiwCqe{Id: e.Id, Opcode: e.Opcode, Status: status, QpId: uint64(q.qp.Num)})
}

func (q *SIWQP) received(id uint64, n uint32, status uint16) {
	q.qp.RecvCQ.SIW.complete(abi.SiwCqe{Id: id, Opcode: abi.SIW_OP_RECEIVE, Bytes: n, Status: status, QpId: uint64(q.qp.Num)})
}

// TakeSend takes the oldest send, as the driver does when it starts on it.
func (q *SIWQP) TakeSend() (e abi.SiwSqe, ok bool) {
	q.qp.k.mu.Lock()
	defer q.qp.k.mu.Unlock()
	return takeSend(q.sq)
}

// TakeRecv takes the oldest receive, as for an arriving SEND.
func (q *SIWQP) TakeRecv() (e abi.SiwRqe, ok bool) {
	q.qp.k.mu.Lock()
	defer q.qp.k.mu.Unlock()
	return takeRecv(q.rq)
}

func (q *SIWQP) carry(status uint32) bool {
	e, ok := takeSend(q.sq)
	if ok && (status != 0 || e.Flags&abi.SIW_WQE_SIGNALLED != 0) {
		q.sent(&e, uint16(status))
	}
	return ok
}

// receive breaks the connection when there is no receive: iWARP has no
// receiver-not-ready.
func (q *SIWQP) receive(n uint32) bool {
	e, ok := takeRecv(q.rq)
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
	rq  *mmap.FlagConsumer[abi.SiwRqe]
}

// TakeRecv takes the oldest receive, as for an arriving SEND.
func (q *SIWSRQ) TakeRecv() (e abi.SiwRqe, ok bool) {
	q.srq.k.mu.Lock()
	defer q.srq.k.mu.Unlock()
	return takeRecv(q.rq)
}

func takeSend(q *mmap.FlagConsumer[abi.SiwSqe]) (abi.SiwSqe, bool) {
	e := q.At(0)
	word := q.Word(e)
	if word&mmap.Valid == 0 {
		return abi.SiwSqe{}, false
	}
	s := abi.SiwSqe{Id: e.Id, Rkey: e.Rkey, Raddr: e.Raddr, Sge: e.Sge,
		Flags: uint16(word), NumSge: uint8(word >> 16), Opcode: uint8(word >> 24)}
	q.Return(e)
	q.Release(1)
	return s, true
}

func takeRecv(q *mmap.FlagConsumer[abi.SiwRqe]) (abi.SiwRqe, bool) {
	e := q.At(0)
	word := q.Word(e)
	if word&0xffff != abi.SIW_WQE_VALID { // siw ignores an entry with any other flag
		return abi.SiwRqe{}, false
	}
	s := abi.SiwRqe{Id: e.Id, Sge: e.Sge, Flags: uint16(word), NumSge: uint8(word >> 16)}
	q.Return(e)
	q.Release(1)
	return s, true
}
