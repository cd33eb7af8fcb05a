package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// modifyQP checks as rxe_qp_chk_attr and __qp_chk_state do, moves the QP, then
// takes over what the mask names.
func (m *rxe) modifyQP(qp *QP, in *abi.IbUverbsModifyQp) error {
	if err := m.checkAttr(qp, in); err != nil {
		return err
	}
	if in.AttrMask&abi.IB_QP_STATE != 0 {
		from := qp.state
		if in.AttrMask&abi.IB_QP_CUR_STATE != 0 {
			from = in.CurQpState
		}
		if !modifyIsOK(from, in.QpState, qp.Type, in.AttrMask) {
			return syscall.EINVAL
		}
		qp.RXE.enter(in.QpState)
	}
	qp.takeOver(in)
	return nil
}

func (m *rxe) checkAttr(qp *QP, in *abi.IbUverbsModifyQp) error {
	has := func(bit uint32) bool { return in.AttrMask&bit != 0 }
	if has(abi.IB_QP_AV) {
		if in.Dest.IsGlobal == 0 {
			return syscall.EINVAL
		}
		if _, err := m.k.gid(uint32(in.Dest.SgidIndex)); err != nil {
			return err
		}
	}
	access := has(abi.IB_QP_ACCESS_FLAGS) && (qp.Type == abi.IB_UVERBS_QPT_UD || in.QpAccessFlags&^rxeAccess != 0)
	if access || has(abi.IB_QP_ALT_PATH) || has(abi.IB_QP_PATH_MTU) && in.PathMtu > 5 ||
		has(abi.IB_QP_MAX_QP_RD_ATOMIC) && in.MaxRdAtomic > maxRXERDAtom || has(abi.IB_QP_TIMEOUT) && in.Timeout > 31 {
		return syscall.EINVAL
	}
	return nil
}

func (q *RXEQP) enter(state uint8) {
	q.qp.state = state
	switch state {
	case abi.IB_QPS_RESET:
		q.reset()
	case abi.IB_QPS_ERR:
		q.fail()
	case abi.IB_QPS_SQD:
		q.qp.k.raise(q.qp.Cookie, abi.IB_EVENT_SQ_DRAINED) // nothing is ever under way here
	}
}

// takeOver keeps the attributes that the mask names, as rxe does.
func (qp *QP) takeOver(in *abi.IbUverbsModifyQp) {
	for _, c := range qpAttrs {
		if in.AttrMask&c.bit != 0 {
			c.copy(&qp.attr, in)
		}
	}
}

// qpAttrs are the attributes that a modification may have.
var qpAttrs = []struct {
	bit  uint32
	copy func(to, from *abi.IbUverbsModifyQp)
}{
	{abi.IB_QP_EN_SQD_ASYNC_NOTIFY, func(to, from *abi.IbUverbsModifyQp) { to.EnSqdAsyncNotify = from.EnSqdAsyncNotify }},
	{abi.IB_QP_ACCESS_FLAGS, func(to, from *abi.IbUverbsModifyQp) { to.QpAccessFlags = from.QpAccessFlags }},
	{abi.IB_QP_PKEY_INDEX, func(to, from *abi.IbUverbsModifyQp) { to.PkeyIndex = from.PkeyIndex }},
	{abi.IB_QP_PORT, func(to, from *abi.IbUverbsModifyQp) { to.PortNum = from.PortNum }},
	{abi.IB_QP_QKEY, func(to, from *abi.IbUverbsModifyQp) { to.Qkey = from.Qkey }},
	{abi.IB_QP_AV, func(to, from *abi.IbUverbsModifyQp) { to.Dest = from.Dest }},
	{abi.IB_QP_PATH_MTU, func(to, from *abi.IbUverbsModifyQp) { to.PathMtu = from.PathMtu }},
	{abi.IB_QP_TIMEOUT, func(to, from *abi.IbUverbsModifyQp) { to.Timeout = from.Timeout }},
	{abi.IB_QP_RETRY_CNT, func(to, from *abi.IbUverbsModifyQp) { to.RetryCnt = from.RetryCnt }},
	{abi.IB_QP_RNR_RETRY, func(to, from *abi.IbUverbsModifyQp) { to.RnrRetry = from.RnrRetry }},
	{abi.IB_QP_RQ_PSN, func(to, from *abi.IbUverbsModifyQp) { to.RqPsn = from.RqPsn & 0xffffff }},
	{abi.IB_QP_MAX_QP_RD_ATOMIC, func(to, from *abi.IbUverbsModifyQp) { to.MaxRdAtomic = atomics(from.MaxRdAtomic) }},
	{abi.IB_QP_MIN_RNR_TIMER, func(to, from *abi.IbUverbsModifyQp) { to.MinRnrTimer = from.MinRnrTimer }},
	{abi.IB_QP_SQ_PSN, func(to, from *abi.IbUverbsModifyQp) { to.SqPsn = from.SqPsn & 0xffffff }},
	{abi.IB_QP_MAX_DEST_RD_ATOMIC, func(to, from *abi.IbUverbsModifyQp) { to.MaxDestRdAtomic = atomics(from.MaxDestRdAtomic) }},
	{abi.IB_QP_PATH_MIG_STATE, func(to, from *abi.IbUverbsModifyQp) { to.PathMigState = from.PathMigState }},
	{abi.IB_QP_DEST_QPN, func(to, from *abi.IbUverbsModifyQp) { to.DestQpNum = from.DestQpNum }},
}

// atomics rounds as rxe does: 0, or a power of two.
func atomics(n uint8) uint8 {
	if n == 0 {
		return 0
	}
	return uint8(roundPow2(uint32(n)))
}
