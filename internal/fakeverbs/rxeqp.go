package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// RXEQP is rxe's side of a QP's queues.
type RXEQP struct {
	qp     *QP
	sq, rq *rxeRing
}

func (m *rxe) createQP(qp *QP, r *ioctl.Request) error {
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 || !room(r, 32) {
		return syscall.EINVAL
	}
	switch {
	case qp.Flags&^abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0:
		return syscall.EOPNOTSUPP
	case qp.Type != abi.IB_UVERBS_QPT_RC && qp.Type != abi.IB_UVERBS_QPT_UC && qp.Type != abi.IB_UVERBS_QPT_UD:
		return syscall.EOPNOTSUPP
	case !rxeCapOK(&qp.Cap, qp.srq != nil):
		return syscall.EINVAL
	}
	var resp abi.RxeCreateQpResp
	var err error
	q := &RXEQP{qp: qp}
	payload := max(qp.Cap.MaxSendSge*rxeSGESize, qp.Cap.MaxInlineData)
	if q.sq, resp.SqMi, err = m.newRing(seam{object: qp.Num, kind: EntrySQE, ud: qp.Type == abi.IB_UVERBS_QPT_UD}, &qp.memory, qp.Cap.MaxSendWr, rxeSendSize+payload); err != nil {
		return err
	}
	qp.Cap.MaxSendWr, qp.Cap.MaxSendSge, qp.Cap.MaxInlineData = q.sq.mask, payload/rxeSGESize, payload
	if qp.srq == nil {
		if q.rq, resp.RqMi, err = m.newRing(seam{object: qp.Num, kind: EntryRQE}, &qp.memory, qp.Cap.MaxRecvWr, rxeRecvSize(qp.Cap.MaxRecvSge)); err != nil {
			return err
		}
		qp.Cap.MaxRecvWr = q.rq.mask
	}
	qp.RXE, qp.queues = q, q
	return uhw(r, resp)
}

func rxeCapOK(c *abi.IbUverbsQpCap, srq bool) bool {
	recv := srq || c.MaxRecvWr <= maxRXEWR && c.MaxRecvSge <= maxRXESGE
	return recv && c.MaxSendWr <= maxRXEWR && c.MaxSendSge <= maxRXESGE && c.MaxInlineData <= maxRXEInline
}

func (*rxe) waiting(qp *QP) int { return int(qp.RXE.sq.count()) }

// doorbell has a QP in the error state flush what was posted since. Otherwise the
// test plays the driver.
func (*rxe) doorbell(qp *QP) error {
	qp.RXE.sq.record(qp.RXE.sq.producer)
	switch {
	case qp.state < abi.IB_QPS_RTS:
		return syscall.EINVAL
	case qp.state == abi.IB_QPS_ERR:
		qp.RXE.flushSends()
	}
	return nil
}

// fail is the move to the error state, also from it: both queues are flushed.
func (q *RXEQP) fail() {
	q.qp.state = abi.IB_QPS_ERR
	q.flushRecvs()
	q.flushSends()
}

func (q *RXEQP) flushSends() {
	q.qp.flushTaken()
	for e, ok := takeRXESend(q.sq); ok; e, ok = takeRXESend(q.sq) {
		q.qp.SendCQ.RXE.complete(q.flushed(e.Wr.WrId), false)
	}
}

// flushRecvs leaves an SRQ alone and says so.
func (q *RXEQP) flushRecvs() {
	if q.rq == nil {
		q.qp.k.raise(q.qp.Cookie, abi.IB_EVENT_QP_LAST_WQE_REACHED)
		return
	}
	for e, ok := takeRXERecv(q.rq); ok; e, ok = takeRXERecv(q.rq) {
		q.qp.RecvCQ.RXE.complete(q.flushed(e.WrId), false)
	}
}

// flushed leaves the opcode 0, as rxe does for all that fails.
func (q *RXEQP) flushed(id uint64) *abi.IbUverbsWc {
	return &abi.IbUverbsWc{WrId: id, Status: abi.IB_WC_WR_FLUSH_ERR, QpNum: q.qp.Num}
}

// reset takes everything off the queues unsaid and leaves the indexes where that
// brings them.
func (q *RXEQP) reset() {
	q.qp.taken = nil
	for _, ring := range []*rxeRing{q.sq, q.rq} {
		for ring != nil && ring.head() != nil {
			ring.drop()
		}
		if ring != nil {
			clear(ring.data)
		}
	}
}
