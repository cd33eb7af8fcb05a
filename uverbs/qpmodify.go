package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// Modify changes the attributes that mask names, and with QPAttrState the QP's
// state. When the kernel refuses a transition the error says what it misses.
//
// C: ibv_modify_qp
func (qp *QP) Modify(attr *QPAttr, mask QPAttrMask) error {
	if attr == nil {
		return qp.fail("modify", syscall.EINVAL, "no attributes")
	}
	return qp.using("modify", func() error {
		if err := qp.issueModify(attr, mask); err != nil {
			return qp.fail("modify", err, qp.explain(err, attr, mask))
		}
		if mask&QPAttrState != 0 {
			qp.moved(attr.State)
		}
		return nil
	})
}

// moved notes a state that the kernel agreed to.
func (qp *QP) moved(s QPState) {
	qp.state.Store(uint32(s))
	switch s {
	case QPStateErr:
		qp.failed()
	case QPStateReset:
		qp.failing.Store(false)
	}
}

// modifyState moves the QP without telling it.
func (qp *QP) modifyState(s QPState) error {
	return qp.issueModify(&QPAttr{State: s}, QPAttrState)
}

func (qp *QP) issueModify(a *QPAttr, mask QPAttrMask) error {
	in := &abi.IbUverbsModifyQp{
		Dest: a.AH.toABI(), QpHandle: qp.handle, AttrMask: uint32(mask), Qkey: a.QKey,
		RqPsn: a.RQPSN, SqPsn: a.SQPSN, DestQpNum: a.DestQPN, QpAccessFlags: uint32(a.Access),
		PkeyIndex: a.PKeyIndex, QpState: uint8(a.State), CurQpState: uint8(a.CurState), PathMtu: uint8(a.PathMTU),
		MaxRdAtomic: a.MaxRDAtomic, MaxDestRdAtomic: a.MaxDestRDAtomic, MinRnrTimer: a.MinRNRTimer,
		PortNum: a.Port, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RnrRetry: a.RNRRetry,
	}
	return writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_MODIFY_QP, in).Do(qp.dev.file)
}

func (qp *QP) explain(err error, attr *QPAttr, mask QPAttrMask) string {
	if !errors.Is(err, syscall.EINVAL) {
		return ""
	}
	from, to := QPState(qp.state.Load()), attr.State
	if mask&QPAttrState == 0 {
		to = from
	}
	if qp.dev.info.NodeType == netlinkrdma.NodeRNIC && (to == QPStateRTR || to == QPStateRTS) {
		return fmt.Sprintf("an iWARP QP goes to %v only by connecting it: use package rdmacm", to)
	}
	return explainTransition(qp.typ, from, to, mask)
}

// Query asks the kernel for the QP's attributes. Linux 6.1's siw always says
// RESET.
//
// C: ibv_query_qp
func (qp *QP) Query() (*QPAttr, error) {
	var resp abi.IbUverbsQueryQpResp
	in := &abi.IbUverbsQueryQp{QpHandle: qp.handle, AttrMask: uint32(QPAttrDestQPN<<1 - 1)}
	r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_QUERY_QP, in)
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	err := qp.using("query", func() error {
		if err := r.Do(qp.dev.file); err != nil {
			return qp.fail("query", err, "")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &QPAttr{
		State: QPState(resp.QpState), CurState: QPState(resp.CurQpState), PathMTU: MTU(resp.PathMtu),
		QKey: resp.Qkey, RQPSN: resp.RqPsn, SQPSN: resp.SqPsn, DestQPN: resp.DestQpNum, Access: Access(resp.QpAccessFlags),
		AH: ahFromABI(&resp.Dest), PKeyIndex: resp.PkeyIndex, MaxRDAtomic: resp.MaxRdAtomic, MaxDestRDAtomic: resp.MaxDestRdAtomic,
		MinRNRTimer: resp.MinRnrTimer, Port: resp.PortNum, Timeout: resp.Timeout, RetryCnt: resp.RetryCnt, RNRRetry: resp.RnrRetry,
	}, nil
}
