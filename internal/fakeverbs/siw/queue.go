package siw

import (
	"slices"
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

// Complete writes an entry, whose fields but Flags the caller has set, and raises an event if user space has
// requested one. It reports whether there was room. If the CQ overflows, Complete raises an asynchronous
// event.
func (q *CQ) Complete(e abi.SiwCqe) bool {
	q.cq.Kernel().Lock()
	defer q.cq.Kernel().Unlock()
	return q.complete(e, false)
}

// complete checks whether an event is requested after it has written the entry, because user space requests
// an event first and then polls. The driver supports solicited events only for sends.
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

// TakeSend takes the oldest send, as the driver does when it begins to process it.
func (q *QP) TakeSend() (e abi.SiwSqe, ok bool) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	return q.sq.takeSend()
}

// TakeRecv takes the oldest receive of the QP or its SRQ, for an arriving SEND.
func (q *QP) TakeRecv() (e abi.SiwRqe, ok bool) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	return q.takeRecv()
}

// takeRecv takes the oldest receive. The QP may have neither a receive queue nor an SRQ.
func (q *QP) takeRecv() (e abi.SiwRqe, ok bool) {
	switch {
	case q.rq != nil:
		return q.rq.takeRecv()
	case q.qp.SRQ != nil:
		return SRQOf(q.qp.SRQ).take()
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

// Receive completes the oldest receive. If the queue is empty, the connection ends, because iWARP has no
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
	srq   *fakeverbs.SRQ
	rq    *ring
	armed bool // whether the limit event is armed
}

// TakeRecv takes the oldest receive, for an arriving SEND.
func (q *SRQ) TakeRecv() (e abi.SiwRqe, ok bool) {
	q.srq.Kernel().Lock()
	defer q.srq.Kernel().Unlock()
	return q.take()
}

// take takes the oldest receive. If fewer receives than the limit are left, it raises the event once.
func (q *SRQ) take() (e abi.SiwRqe, ok bool) {
	at := q.rq.next
	e, ok = q.rq.takeRecv()
	if ok && q.armed && q.rq.words[(at+int(q.srq.Limit))%len(q.rq.words)].Load()&abi.SIW_WQE_VALID == 0 {
		q.armed = false
		q.srq.Kernel().Raise(q.srq.Cookie, abi.IB_EVENT_SRQ_LIMIT_REACHED)
	}
	return e, ok
}

// sendFlags holds the flags that user space may set.
const sendFlags = abi.SIW_WQE_VALID | abi.SIW_WQE_INLINE | abi.SIW_WQE_SIGNALLED | abi.SIW_WQE_SOLICITED | abi.SIW_WQE_READ_FENCE

// reads reports whether an operation uses the first SGE, even if their number is 0.
func reads(op uint8) bool { return op == abi.SIW_OP_READ || op == abi.SIW_OP_READ_LOCAL_INV }

// check records a send that the driver refuses. Such a send remains on the queue, and so do all later ones.
func (q *QP) check(s *abi.SiwSqe) {
	note := func(format string, args ...any) {
		q.qp.Kernel().Device.Note("QP %d: send %d: "+format, append([]any{q.qp.Num, s.Id}, args...)...)
	}
	if _, ok := opcodes[s.Opcode]; !ok {
		note("there is no operation %d", s.Opcode)
	}
	if odd := s.Flags &^ sendFlags; odd != 0 {
		note("flags %#x are the driver's own", odd)
	}
	if reads(s.Opcode) && s.Flags&abi.SIW_WQE_READ_FENCE != 0 {
		note("a read with a fence")
	}
	if s.Flags&abi.SIW_WQE_INLINE == 0 {
		if s.NumSge > abi.SIW_MAX_SGE {
			note("operation %d with %d SGEs", s.Opcode, s.NumSge)
		}
		return
	}
	if n := s.Sge[0].Length; s.Opcode != abi.SIW_OP_SEND && s.Opcode != abi.SIW_OP_WRITE || n > abi.SIW_MAX_INLINE {
		note("operation %d with %d bytes inline", s.Opcode, n)
	}
}

var opcodes = map[uint8]uint32{
	abi.SIW_OP_WRITE: abi.IB_UVERBS_WR_RDMA_WRITE, abi.SIW_OP_READ: abi.IB_UVERBS_WR_RDMA_READ,
	abi.SIW_OP_READ_LOCAL_INV: abi.IB_UVERBS_WR_RDMA_READ_WITH_INV, abi.SIW_OP_SEND: abi.IB_UVERBS_WR_SEND,
	abi.SIW_OP_SEND_REMOTE_INV: abi.IB_UVERBS_WR_SEND_WITH_INV, abi.SIW_OP_INVAL_STAG: abi.IB_UVERBS_WR_LOCAL_INV,
}

var flagNames = []struct {
	siw   uint16
	verbs uint32
}{
	{abi.SIW_WQE_SIGNALLED, abi.IB_SEND_SIGNALED}, {abi.SIW_WQE_SOLICITED, abi.IB_SEND_SOLICITED},
	{abi.SIW_WQE_READ_FENCE, abi.IB_SEND_FENCE}, {abi.SIW_WQE_INLINE, abi.IB_SEND_INLINE},
}

// NextSend takes the oldest send. It stores the driver's opcode in Index, because operations that are not
// verbs must be completed too.
func (q *QP) NextSend() (*fakeverbs.Work, bool) {
	s, ok := q.sq.takeSend()
	if !ok {
		return nil, false
	}
	q.check(&s)
	w := &fakeverbs.Work{ID: s.Id, RemoteAddr: s.Raddr, RKey: s.Rkey, Imm: s.Rkey, Index: uint32(s.Opcode)}
	w.Opcode, ok = opcodes[s.Opcode]
	if !ok {
		w.Opcode = fakeverbs.NoOpcode
	}
	for _, f := range flagNames {
		if s.Flags&f.siw != 0 {
			w.Flags |= f.verbs
		}
	}
	if w.Flags&abi.IB_SEND_INLINE != 0 {
		room := abi.Bytes(&s.Sge)[sgeSize:]
		w.Inline = slices.Clone(room[:min(int(s.Sge[0].Length), len(room))])
		return w, true
	}
	n := s.NumSge
	if reads(s.Opcode) {
		n = 1
	}
	w.SGL = sgl(w.SGLRoom[:0], &s.Sge, n)
	return w, true
}

func sgl(sgl []fakeverbs.SGE, from *[abi.SIW_MAX_SGE]abi.SiwSge, n uint8) []fakeverbs.SGE {
	for _, s := range from[:min(int(n), len(from))] {
		sgl = append(sgl, fakeverbs.SGE{Addr: s.Laddr, Length: s.Length, LKey: s.Lkey})
	}
	return sgl
}

func (q *QP) SendDone(w *fakeverbs.Work, status uint32, completes bool) {
	if !completes {
		return
	}
	CQOf(q.qp.SendCQ).complete(abi.SiwCqe{Id: w.ID, Opcode: uint8(w.Index), Bytes: w.Len(), Status: siwStatus(status), QpId: uint64(q.qp.Num)},
		w.Flags&abi.IB_SEND_SOLICITED != 0)
}

func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	r, ok := q.takeRecv()
	if !ok {
		return nil, false
	}
	to := &fakeverbs.Recv{ID: r.Id}
	to.SGL = sgl(to.SGLRoom[:0], &r.Sge, r.NumSge)
	return to, true
}

func (q *QP) RecvDone(_ *fakeverbs.Recv, wc abi.IbUverbsWc, _ bool) {
	q.received(wc.WrId, wc.ByteLen, siwStatus(wc.Status))
}

var statuses = map[uint32]uint16{
	abi.IB_WC_SUCCESS: abi.SIW_WC_SUCCESS, abi.IB_WC_LOC_LEN_ERR: abi.SIW_WC_LOC_LEN_ERR,
	abi.IB_WC_LOC_PROT_ERR: abi.SIW_WC_LOC_PROT_ERR, abi.IB_WC_LOC_QP_OP_ERR: abi.SIW_WC_LOC_QP_OP_ERR,
	abi.IB_WC_WR_FLUSH_ERR: abi.SIW_WC_WR_FLUSH_ERR, abi.IB_WC_BAD_RESP_ERR: abi.SIW_WC_BAD_RESP_ERR,
	abi.IB_WC_LOC_ACCESS_ERR: abi.SIW_WC_LOC_ACCESS_ERR, abi.IB_WC_REM_ACCESS_ERR: abi.SIW_WC_REM_ACCESS_ERR,
	abi.IB_WC_REM_INV_REQ_ERR: abi.SIW_WC_REM_INV_REQ_ERR,
}

// siwStatus returns siw's number for a status of the verbs. siw has fewer statuses.
func siwStatus(status uint32) uint16 {
	if s, ok := statuses[status]; ok {
		return s
	}
	return abi.SIW_WC_GENERAL_ERR
}
