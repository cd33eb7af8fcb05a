package fakeverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
)

// Connect puts the QP into RTS, as the connection manager does.
func (qp *QP) Connect() {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	qp.state = abi.IB_QPS_RTS
}

// Break puts the QP into the error state, as a lost peer does: all that is on the
// queues is flushed, and what comes later is never looked at.
func (qp *QP) Break() {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	qp.fail()
}

func (qp *QP) fail() {
	if qp.state != abi.IB_QPS_ERR {
		qp.state = abi.IB_QPS_ERR
		qp.flush()
	}
}

func (qp *QP) flush() {
	for qp.sq != nil {
		e, ok := takeSend(qp.sq)
		if !ok {
			break
		}
		qp.SendCQ.complete(abi.SiwCqe{Id: e.Id, Opcode: e.Opcode, Status: abi.SIW_WC_WR_FLUSH_ERR, QpId: uint64(qp.Num)})
	}
	for qp.rq != nil {
		e, ok := takeRecv(qp.rq)
		if !ok {
			break
		}
		qp.RecvCQ.complete(abi.SiwCqe{Id: e.Id, Opcode: abi.SIW_OP_RECEIVE, Status: abi.SIW_WC_WR_FLUSH_ERR, QpId: uint64(qp.Num)})
	}
}

// State is the QP's state, an IB_QPS_ number.
func (qp *QP) State() uint8 {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.state
}

// TakeSend takes the oldest send, as the driver does when it starts on it.
func (qp *QP) TakeSend() (e abi.SiwSqe, ok bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return takeSend(qp.sq)
}

// TakeRecv takes the oldest receive, as for an arriving SEND.
func (qp *QP) TakeRecv() (e abi.SiwRqe, ok bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return takeRecv(qp.rq)
}

// Carry takes the oldest send and completes it with status; a success only if it
// was signalled. It reports whether there was one.
func (qp *QP) Carry(status uint16) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	e, ok := takeSend(qp.sq)
	if ok && (status != 0 || e.Flags&abi.SIW_WQE_SIGNALLED != 0) {
		qp.SendCQ.complete(abi.SiwCqe{Id: e.Id, Opcode: e.Opcode, Status: status, QpId: uint64(qp.Num)})
	}
	return ok
}

// Receive takes the oldest receive and completes it with n bytes. Without one
// the connection breaks.
func (qp *QP) Receive(n uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	e, ok := takeRecv(qp.rq)
	if !ok {
		qp.fail()
		return false
	}
	qp.RecvCQ.complete(abi.SiwCqe{Id: e.Id, Opcode: abi.SIW_OP_RECEIVE, Bytes: n, QpId: uint64(qp.Num)})
	return true
}

func takeSend(q *mmap.FlagConsumer[abi.SiwSqe]) (abi.SiwSqe, bool) {
	e, word := q.Next()
	if e == nil {
		return abi.SiwSqe{}, false
	}
	s := abi.SiwSqe{Id: e.Id, Rkey: e.Rkey, Raddr: e.Raddr, Sge: e.Sge,
		Flags: uint16(word), NumSge: uint8(word >> 16), Opcode: uint8(word >> 24)}
	q.Release()
	return s, true
}

func takeRecv(q *mmap.FlagConsumer[abi.SiwRqe]) (abi.SiwRqe, bool) {
	e, word := q.Next()
	if e == nil || word&0xffff != abi.SIW_WQE_VALID { // siw ignores an entry with any other flag
		return abi.SiwRqe{}, false
	}
	s := abi.SiwRqe{Id: e.Id, Sge: e.Sge, Flags: uint16(word), NumSge: uint8(word >> 16)}
	q.Release()
	return s, true
}
