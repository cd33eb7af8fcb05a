package erdma

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// QP is the device's side of a queue pair.
type QP struct {
	e              *model
	qp             *fakeverbs.QP
	sq, rq         uint64 // addresses
	sqDepth        uint32 // blocks
	rqDepth        uint32
	record         uint64
	sqTold, rqTold uint32 // where the doorbells are, free-running
	sends          []*send
	recvs          []*fakeverbs.Recv
	stopped        bool        // by the kernel: the device looks at it no more
	entry          [entry]byte // of a receive that is read
	blocks         []byte      // of a send that is read
}

func (q *QP) String() string { return fmt.Sprintf("QP %d", q.qp.Num) }

// checkCap has the order of the driver.
func (e *model) checkCap(qp *fakeverbs.QP) error {
	c := &qp.Cap
	switch {
	case c.MaxSendWr == 0 || c.MaxSendWr > maxWR || c.MaxRecvWr == 0 || c.MaxRecvWr > maxWR,
		c.MaxSendSge > maxSGE || c.MaxRecvSge > 1 || c.MaxInlineData > maxInline:
		return syscall.EINVAL
	case qp.Type != abi.IB_UVERBS_QPT_RC || qp.SRQ != nil:
		return syscall.EOPNOTSUPP
	}
	return nil
}

func (e *model) CreateQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	if err := e.checkCap(qp); err != nil {
		return err
	}
	in, err := input[abi.ErdmaUreqCreateQp](e, "QP_CREATE", r)
	if err != nil {
		return err
	}
	if in.Rsvd0 != 0 {
		e.note("QP_CREATE: the reserved word is %#x", in.Rsvd0)
	}
	q := &QP{e: e, qp: qp, sqDepth: fakeverbs.RoundPow2(4 * qp.Cap.MaxSendWr), rqDepth: fakeverbs.RoundPow2(qp.Cap.MaxRecvWr), record: in.DbRecordVa}
	offset := (q.sqDepth*entry + erdmaPage - 1) / erdmaPage * erdmaPage
	if err := e.pin("QP_CREATE", in.QbufVa, in.QbufLen, offset+q.rqDepth*entry); err != nil {
		return err
	}
	if err := e.pinRecord("QP_CREATE", in.DbRecordVa); err != nil {
		return err
	}
	q.sq, q.rq = in.QbufVa, in.QbufVa+uint64(offset)
	for i, what := range []string{"sends", "receives"} {
		if v, ok := e.load(q, qp.Num, q.record+uint64(8*i)); ok && v != 0 && !e.options.OldRecords {
			e.note("QP_CREATE: the record for %s of a new QP is %#x", what, v)
		}
	}
	CQOf(qp.SendCQ).wantRecord()
	CQOf(qp.RecvCQ).wantRecord()
	e.keepRecord(q.record, q.String())
	qp.SetQueues(q)
	qp.CurState = abi.IB_QPS_INIT // as a query shows it
	return answerWhole(e, "QP_CREATE", r, abi.ErdmaUrespCreateQp{QpId: qp.Num, NumSqe: q.sqDepth, NumRqe: q.rqDepth, RqOffset: offset})
}

// ModifyQP knows ERR and what closes a connection; only the connection manager moves a QP
// to RTS. Other moves are accepted and do nothing.
func (e *model) ModifyQP(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	if in.AttrMask&abi.IB_QP_STATE == 0 {
		return nil
	}
	switch in.QpState {
	case abi.IB_QPS_RTS:
		if qp.CurState != abi.IB_QPS_RTS && qp.CurState != abi.IB_QPS_ERR {
			return syscall.EINVAL
		}
	case abi.IB_QPS_ERR:
		QPOf(qp).stop()
	case abi.IB_QPS_SQD, abi.IB_QPS_SQE:
		if qp.CurState == abi.IB_QPS_RTS {
			QPOf(qp).EnterError()
		}
	}
	return nil
}

// DestroyQP flushes nothing when the file is closed: the process may be gone, and its memory
// with it.
func (e *model) DestroyQP(qp *fakeverbs.QP) {
	q := QPOf(qp)
	if q == nil {
		return
	}
	if !e.k.IsClosed() {
		q.stop()
	}
	e.forgetRecord(q.record)
}

// stop is the kernel's command that ends a QP: what the device was told of is flushed, and
// it is told of nothing later. The kernel gives it once.
func (q *QP) stop() {
	if !q.stopped {
		q.EnterError()
		q.stopped = true
	}
}
