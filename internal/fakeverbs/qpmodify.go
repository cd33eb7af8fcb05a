package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

func (k *Kernel) modifyQP(r *ioctl.Request) error {
	in := request[abi.IbUverbsModifyQp](r)
	if in.AttrMask&^abi.IB_QP_ATTR_STANDARD_BITS != 0 {
		return syscall.EOPNOTSUPP
	}
	return k.modify(&in)
}

func (k *Kernel) exModifyQP(r *ioctl.Request) error {
	in := request[abi.IbUverbsExModifyQp](r)
	if in.Base.AttrMask&^(abi.IB_QP_ATTR_STANDARD_BITS|abi.IB_QP_RATE_LIMIT) != 0 {
		return syscall.EOPNOTSUPP
	}
	if err := k.modify(&in.Base); err != nil {
		return err
	}
	return respond(r, abi.IbUverbsExModifyQpResp{ResponseLength: 8})
}

func (k *Kernel) modify(in *abi.IbUverbsModifyQp) error {
	_, qp, err := find[*QP](k, "QP", in.QpHandle)
	if err != nil {
		return err
	}
	err = qp.shared(func() error {
		if err := k.checkModify(qp, in); err != nil {
			return err
		}
		if qp.target != nil {
			return bare{}.modifyQP(qp, in)
		}
		return k.model.modifyQP(qp, in)
	})
	if err != nil {
		return err
	}
	k.ring(qp)
	return nil
}

// checkModify refuses what the core does, whatever the driver.
func (k *Kernel) checkModify(qp *QP, in *abi.IbUverbsModifyQp) error {
	has := func(bits uint32) bool { return in.AttrMask&bits != 0 }
	switch toRTR := has(abi.IB_QP_STATE) && in.QpState == abi.IB_QPS_RTR; {
	case has(abi.IB_QP_RATE_LIMIT) && k.driver != abi.RDMA_DRIVER_MLX5:
		return syscall.EOPNOTSUPP
	case has(abi.IB_QP_PORT) && in.PortNum != 1,
		has(abi.IB_QP_AV) && in.Dest.PortNum != 1,
		has(abi.IB_QP_AV) && toRTR && in.Dest.PortNum != qp.attr.PortNum,
		has(abi.IB_QP_CUR_STATE) && in.CurQpState > abi.IB_QPS_ERR,
		has(abi.IB_QP_STATE) && in.QpState > abi.IB_QPS_ERR:
		return syscall.EINVAL
	}
	return nil
}

func (k *Kernel) queryQP(r *ioctl.Request) error {
	_, qp, err := find[*QP](k, "QP", request[abi.IbUverbsQueryQp](r).QpHandle)
	if err != nil {
		return err
	}
	_ = qp.shared(func() error { return nil })
	a := &qp.attr
	resp := abi.IbUverbsQueryQpResp{
		Dest: a.Dest, AltDest: a.AltDest, QpState: qp.state, CurQpState: qp.state, PathMtu: a.PathMtu, PathMigState: a.PathMigState,
		Qkey: a.Qkey, RqPsn: a.RqPsn, SqPsn: a.SqPsn, DestQpNum: a.DestQpNum, QpAccessFlags: a.QpAccessFlags,
		PkeyIndex: a.PkeyIndex, AltPkeyIndex: a.AltPkeyIndex, MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic,
		MinRnrTimer: a.MinRnrTimer, PortNum: a.PortNum, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RnrRetry: a.RnrRetry,
		AltPortNum: a.AltPortNum, AltTimeout: a.AltTimeout,
		MaxSendWr: qp.Cap.MaxSendWr, MaxSendSge: qp.Cap.MaxSendSge, MaxInlineData: qp.Cap.MaxInlineData,
	}
	if qp.srq == nil {
		resp.MaxRecvWr, resp.MaxRecvSge = qp.Cap.MaxRecvWr, qp.Cap.MaxRecvSge
	}
	if qp.MLX5 != nil {
		resp.MaxRecvWr = qp.MLX5.rq.entries // those that the provider made room for
	}
	if qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0 {
		resp.SqSigAll = 1
	}
	return respond(r, resp)
}

// State is the QP's state, an IB_QPS_ number.
func (qp *QP) State() uint8 {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	_ = qp.shared(func() error { return nil })
	return qp.state
}

// Connect puts the QP into RTS, as the connection manager does.
func (qp *QP) Connect() {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	qp.state = abi.IB_QPS_RTS
}

// Break puts the QP into the error state, as a lost peer does: all that is on the
// queues is flushed, and what comes later is not looked at by itself.
func (qp *QP) Break() {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	qp.queues.fail()
}

// Carry takes the oldest send and completes it with status, in the driver's own
// numbers; a success only if it was signalled. It reports whether there was one. A QP in
// the error state carries nothing, as siw and rxe only flush there.
func (qp *QP) Carry(status uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.state != abi.IB_QPS_ERR && qp.queues.(player).carry(status)
}

// Receive takes the oldest receive and completes it with n bytes. Without one it
// reports false; siw then ends the connection. A QP in the error state receives nothing.
func (qp *QP) Receive(n uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.state != abi.IB_QPS_ERR && qp.queues.(player).receive(n)
}

// player carries what a test tells it to.
type player interface {
	carry(status uint32) bool
	receive(n uint32) bool
}
