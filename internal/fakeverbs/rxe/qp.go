package rxe

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// QP is rxe's side of a QP's queues.
type QP struct {
	qp     *fakeverbs.QP
	sq, rq *ring
}

func (m *model) CreateQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 || !fakeverbs.HasRoom(r, 32) {
		return syscall.EINVAL
	}
	switch {
	case qp.Flags&^abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0:
		return syscall.EOPNOTSUPP
	case qp.Type != abi.IB_UVERBS_QPT_RC && qp.Type != abi.IB_UVERBS_QPT_UC && qp.Type != abi.IB_UVERBS_QPT_UD:
		return syscall.EOPNOTSUPP
	case !capOK(&qp.Cap, qp.SRQ != nil):
		return syscall.EINVAL
	}
	var resp abi.RxeCreateQpResp
	var err error
	q := &QP{qp: qp}
	payload := max(qp.Cap.MaxSendSge*sgeSize, qp.Cap.MaxInlineData)
	if q.sq, resp.SqMi, err = m.newRing(fakeverbs.Seam{Object: qp.Num, Kind: fakeverbs.EntrySQE, UD: qp.Type == abi.IB_UVERBS_QPT_UD}, &qp.Mem, qp.Cap.MaxSendWr, sendSize+payload); err != nil {
		return err
	}
	qp.Cap.MaxSendWr, qp.Cap.MaxSendSge, qp.Cap.MaxInlineData = q.sq.mask, payload/sgeSize, payload
	if qp.SRQ == nil {
		if q.rq, resp.RqMi, err = m.newRing(fakeverbs.Seam{Object: qp.Num, Kind: fakeverbs.EntryRQE}, &qp.Mem, qp.Cap.MaxRecvWr, recvSize(qp.Cap.MaxRecvSge)); err != nil {
			return err
		}
		qp.Cap.MaxRecvWr = q.rq.mask
	}
	qp.SetQueues(q)
	return fakeverbs.AnswerDriver(r, resp)
}

func capOK(c *abi.IbUverbsQpCap, srq bool) bool {
	recv := srq || c.MaxRecvWr <= maxWR && c.MaxRecvSge <= maxSGE
	return recv && c.MaxSendWr <= maxWR && c.MaxSendSge <= maxSGE && c.MaxInlineData <= maxInline
}

func (*model) Waiting(qp *fakeverbs.QP) int { return int(QPOf(qp).sq.count()) }

// Doorbell has a QP in the error state flush what was posted since. Otherwise the
// test plays the driver.
func (*model) Doorbell(qp *fakeverbs.QP) error {
	QPOf(qp).sq.ReadRecord(QPOf(qp).sq.producer)
	switch {
	case qp.CurState < abi.IB_QPS_RTS:
		return syscall.EINVAL
	case qp.CurState == abi.IB_QPS_ERR:
		QPOf(qp).flushSends()
	}
	return nil
}

// EnterError is the move to the error state, also from it: both queues are flushed.
func (q *QP) EnterError() {
	q.qp.CurState = abi.IB_QPS_ERR
	q.flushRecvs()
	q.flushSends()
}

func (q *QP) flushSends() {
	q.qp.FlushTaken()
	for e, ok := takeSend(q.sq); ok; e, ok = takeSend(q.sq) {
		CQOf(q.qp.SendCQ).complete(q.flushed(e.Wr.WrId), false)
	}
}

// flushRecvs leaves an SRQ alone and says so.
func (q *QP) flushRecvs() {
	if q.rq == nil {
		q.qp.Kernel().Raise(q.qp.Cookie, abi.IB_EVENT_QP_LAST_WQE_REACHED)
		return
	}
	for e, ok := takeRecv(q.rq); ok; e, ok = takeRecv(q.rq) {
		CQOf(q.qp.RecvCQ).complete(q.flushed(e.WrId), false)
	}
}

// flushed leaves the opcode 0, as rxe does for all that fails.
func (q *QP) flushed(id uint64) *abi.IbUverbsWc {
	return &abi.IbUverbsWc{WrId: id, Status: abi.IB_WC_WR_FLUSH_ERR, QpNum: q.qp.Num}
}

// reset takes everything off the queues unsaid and leaves the indexes where that
// brings them.
func (q *QP) reset() {
	q.qp.Taken = nil
	for _, ring := range []*ring{q.sq, q.rq} {
		for ring != nil && ring.head() != nil {
			ring.drop()
		}
		if ring != nil {
			clear(ring.data)
		}
	}
}
