package uverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Modify changes the attributes that mask names, and with QPAttrState the QP's
// state. When the kernel refuses a transition the error says what it misses.
//
// C: ibv_modify_qp
func (qp *QP) Modify(attr *QPAttr, mask QPAttrMask) error {
	if attr == nil {
		return qp.fail("modify", syscall.EINVAL, "no attributes")
	}
	move := qp.issueModify
	switch {
	case mask&QPAttrState == 0:
	case attr.State == QPStateReset:
		move = qp.issueReset
	default:
		move = qp.issueMove
	}
	return qp.using("modify", func() error {
		if err := move(attr, mask); err != nil {
			return qp.fail("modify", err, qp.explain(err, attr, mask))
		}
		if mask&QPAttrState != 0 {
			qp.state.Store(uint32(attr.State))
			if attr.State == QPStateErr {
				qp.failed(qp.life.Load())
			}
		}
		return nil
	})
}

// issueMove lets nobody post while the QP goes to another state.
func (qp *QP) issueMove(a *QPAttr, mask QPAttrMask) error {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	return qp.ring.Move(a.State, func() error { return qp.issueModify(a, mask) })
}

// modifyState moves the QP without telling it.
func (qp *QP) modifyState(s QPState) error {
	return qp.issueModify(&QPAttr{State: s}, QPAttrState)
}

func (qp *QP) issueModify(a *QPAttr, mask QPAttrMask) error {
	in := qpToABI(a)
	in.QpHandle, in.AttrMask = qp.handle, uint32(mask)
	if mask&QPAttrRateLimit == 0 {
		r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_MODIFY_QP, &in)
		defer r.Free()
		return r.Do(qp.dev.file)
	}
	ex := &abi.IbUverbsExModifyQp{Base: in, RateLimit: a.RateLimit}
	r := writeCommand(qp.dev, ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_MODIFY_QP), ex)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, new(abi.IbUverbsExModifyQpResp))
	return r.Do(qp.dev.file)
}

// Query asks the kernel for the QP's attributes. Linux 6.1's siw always says
// RESET.
//
// C: ibv_query_qp
func (qp *QP) Query() (attr *QPAttr, err error) {
	err = qp.using("query", func() error {
		if attr, err = qp.issueQuery(); err != nil {
			return qp.fail("query", err, "")
		}
		return nil
	})
	return attr, err
}

func (qp *QP) issueQuery() (*QPAttr, error) {
	var resp abi.IbUverbsQueryQpResp
	in := &abi.IbUverbsQueryQp{QpHandle: qp.handle, AttrMask: uint32(QPAttrDestQPN<<1 - 1)}
	r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_QUERY_QP, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(qp.dev.file); err != nil {
		return nil, err
	}
	return newQPAttr(&resp), nil
}
