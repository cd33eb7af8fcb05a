package rxe

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// ModifyQP checks as rxe_qp_chk_attr and __qp_chk_state do, moves the QP, then
// takes over what the mask names.
func (m *model) ModifyQP(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	if err := m.checkAttr(qp, in); err != nil {
		return err
	}
	if in.AttrMask&abi.IB_QP_STATE != 0 {
		from := qp.CurState
		if in.AttrMask&abi.IB_QP_CUR_STATE != 0 {
			from = in.CurQpState
		}
		if !fakeverbs.ModifyIsOK(from, in.QpState, qp.Type, in.AttrMask) {
			return syscall.EINVAL
		}
		QPOf(qp).enter(in.QpState)
	}
	qp.TakeOver(in)
	return nil
}

func (m *model) checkAttr(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	has := func(bit uint32) bool { return in.AttrMask&bit != 0 }
	if has(abi.IB_QP_AV) {
		if in.Dest.IsGlobal == 0 {
			return syscall.EINVAL
		}
		if _, err := m.k.GID(uint32(in.Dest.SgidIndex)); err != nil {
			return err
		}
	}
	access := has(abi.IB_QP_ACCESS_FLAGS) && (qp.Type == abi.IB_UVERBS_QPT_UD || in.QpAccessFlags&^access != 0)
	if access || has(abi.IB_QP_ALT_PATH) || has(abi.IB_QP_PATH_MTU) && in.PathMtu > 5 ||
		has(abi.IB_QP_MAX_QP_RD_ATOMIC) && in.MaxRdAtomic > maxRDAtom || has(abi.IB_QP_TIMEOUT) && in.Timeout > 31 {
		return syscall.EINVAL
	}
	return nil
}

func (q *QP) enter(state uint8) {
	q.qp.CurState = state
	switch state {
	case abi.IB_QPS_RESET:
		q.reset()
	case abi.IB_QPS_ERR:
		q.EnterError()
	case abi.IB_QPS_SQD:
		q.qp.Kernel().Raise(q.qp.Cookie, abi.IB_EVENT_SQ_DRAINED) // nothing is ever under way here
	}
}
