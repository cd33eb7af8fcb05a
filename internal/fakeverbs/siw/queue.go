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

	// dropped is set when the driver has dropped the connection. The state is still RTS, and sends are accepted,
	// but not processed.
	dropped bool
}

// Drop implements the driver's siw_qp_cm_drop.
func (q *QP) Drop() { q.dropped = q.dropped || q.qp.CurState == abi.IB_QPS_RTS }

// CloseConn closes the connection, as the move to SQD does. If sends are waiting, the result is an error.
func (q *QP) CloseConn() {
	if len(q.qp.Taken) > 0 || q.sq.waiting() > 0 {
		q.EnterError()
		return
	}
	if q.qp.CurState == abi.IB_QPS_RTS {
		q.qp.CurState = abi.IB_QPS_SQD
		q.flushRecvs()
	}
}

// AdjustQuery removes the attributes that the driver does not set. It confuses the two depths. The core reports
// that all sends are signaled if the driver doesn't say so.
func (q *QP) AdjustQuery(r *abi.IbUverbsQueryQpResp) {
	*r = abi.IbUverbsQueryQpResp{
		QpState: r.QpState, PathMtu: q.qp.Kernel().Device.Limits.Port.ActiveMtu, SqSigAll: 1,
		QpAccessFlags: abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_READ,
		MaxRdAtomic:   r.MaxDestRdAtomic, MaxDestRdAtomic: r.MaxRdAtomic,
		MaxSendWr: uint32(len(q.sq.words)), MaxSendSge: r.MaxSendSge, MaxRecvSge: r.MaxRecvSge, MaxInlineData: abi.SIW_MAX_INLINE,
	}
	if q.rq != nil {
		r.MaxRecvWr = uint32(len(q.rq.words))
	}
}

// SetDepths keeps the depths of a connection. The driver's queues of READs have powers of two.
func (q *QP) SetDepths(issued, served uint8) {
	q.qp.Attrs.MaxRdAtomic, q.qp.Attrs.MaxDestRdAtomic = queued(issued), queued(served)
}

func queued(reads uint8) uint8 {
	if reads == 0 {
		return 0
	}
	return uint8(fakeverbs.RoundPow2(uint32(min(reads, 128))))
}

func (q *QP) EnterError() {
	from := q.qp.CurState
	q.qp.CurState = abi.IB_QPS_ERR
	switch from {
	case abi.IB_QPS_ERR:
	case abi.IB_QPS_INIT: // sends were refused, and stay
		q.flushRecvs()
	default:
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
	q.flushRecvs()
}

func (q *QP) flushRecvs() {
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

// refuses reports whether the driver refuses the oldest send because its data can't be inline. The send stays
// on the queue, and so do all later ones.
func (q *ring) refuses() bool {
	e, w := q.head()
	word := w.Load()
	op := uint8(word >> 24)
	return word&abi.SIW_WQE_VALID != 0 && word&abi.SIW_WQE_INLINE != 0 &&
		(op != abi.SIW_OP_SEND && op != abi.SIW_OP_WRITE || u32(e, sqesge+8) > abi.SIW_MAX_INLINE)
}

// check records a send that the driver refuses. Such a send remains on the queue, and so do all later ones.
func (q *QP) check(s *abi.SiwSqe) {
	note := func(format string, args ...any) {
		q.qp.Kernel().Device.Note("QP %d: send %d: "+format, append([]any{q.qp.Num, s.Id}, args...)...)
	}
	if verb(s.Opcode) == fakeverbs.NoOpcode {
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

// verb returns the opcode of the verbs for one of the driver.
func verb(op uint8) uint32 {
	switch op {
	case abi.SIW_OP_WRITE:
		return abi.IB_UVERBS_WR_RDMA_WRITE
	case abi.SIW_OP_READ:
		return abi.IB_UVERBS_WR_RDMA_READ
	case abi.SIW_OP_READ_LOCAL_INV:
		return abi.IB_UVERBS_WR_RDMA_READ_WITH_INV
	case abi.SIW_OP_SEND:
		return abi.IB_UVERBS_WR_SEND
	case abi.SIW_OP_SEND_REMOTE_INV:
		return abi.IB_UVERBS_WR_SEND_WITH_INV
	case abi.SIW_OP_INVAL_STAG:
		return abi.IB_UVERBS_WR_LOCAL_INV
	}
	return fakeverbs.NoOpcode
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
	if q.dropped || q.sq.refuses() {
		return nil, false
	}
	s, ok := q.sq.takeSend()
	if !ok {
		return nil, false
	}
	q.check(&s)
	w := q.qp.Kernel().NewWork()
	w.ID, w.RemoteAddr, w.RKey, w.Imm, w.Index = s.Id, s.Raddr, s.Rkey, s.Rkey, uint32(s.Opcode)
	w.Opcode = verb(s.Opcode)
	for _, f := range flagNames {
		if s.Flags&f.siw != 0 {
			w.Flags |= f.verbs
		}
	}
	if w.Flags&abi.IB_SEND_INLINE != 0 {
		room := abi.Bytes(&s.Sge)[sgeSize:]
		w.SetInline(room[:min(int(s.Sge[0].Length), len(room))])
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
	if status != abi.IB_WC_SUCCESS && w.Opcode == abi.IB_UVERBS_WR_RDMA_READ { // the driver fails in receiving the answer
		q.EnterError()
	}
}

func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	r, ok := q.takeRecv()
	if !ok {
		return nil, false
	}
	to := q.qp.Kernel().NewRecv()
	to.ID = r.Id
	to.SGL = sgl(to.SGLRoom[:0], &r.Sge, r.NumSge)
	return to, true
}

func (q *QP) RecvDone(_ *fakeverbs.Recv, wc abi.IbUverbsWc, _ bool) {
	q.received(wc.WrId, wc.ByteLen, siwStatus(wc.Status))
}

var statuses = map[uint32]uint16{
	abi.IB_WC_LOC_LEN_ERR:  abi.SIW_WC_LOC_LEN_ERR,
	abi.IB_WC_LOC_PROT_ERR: abi.SIW_WC_LOC_PROT_ERR, abi.IB_WC_LOC_QP_OP_ERR: abi.SIW_WC_LOC_QP_OP_ERR,
	abi.IB_WC_WR_FLUSH_ERR: abi.SIW_WC_WR_FLUSH_ERR, abi.IB_WC_BAD_RESP_ERR: abi.SIW_WC_BAD_RESP_ERR,
	abi.IB_WC_LOC_ACCESS_ERR: abi.SIW_WC_LOC_ACCESS_ERR, abi.IB_WC_REM_ACCESS_ERR: abi.SIW_WC_REM_ACCESS_ERR,
	abi.IB_WC_REM_INV_REQ_ERR: abi.SIW_WC_REM_INV_REQ_ERR,
}

// siwStatus returns siw's number for a status of the verbs. siw has fewer statuses.
func siwStatus(status uint32) uint16 {
	if status == abi.IB_WC_SUCCESS {
		return abi.SIW_WC_SUCCESS
	}
	if s, ok := statuses[status]; ok {
		return s
	}
	return abi.SIW_WC_GENERAL_ERR
}
