package uverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// Modify changes the attributes that mask names, and with QPAttrState the QP's
// state. When the kernel refuses a transition the error says what it misses. Nobody
// can post meanwhile.
//
// C: ibv_modify_qp
func (qp *QP) Modify(attr *verbs.QPAttr, mask verbs.QPAttrMask) error {
	if attr == nil {
		return qp.fail("modify", syscall.EINVAL, "no attributes")
	}
	if why := tooWide(attr, mask); why != "" {
		return qp.fail("modify", syscall.EINVAL, why)
	}
	modify := qp.modifyHeld
	if mask&verbs.QPAttrState != 0 && attr.State == verbs.QPStateReset {
		modify = qp.reset
	}
	return qp.using("modify", func() error {
		if err := modify(attr, mask); err != nil {
			return qp.fail("modify", err, qp.explain(err, attr, mask))
		}
		return nil
	})
}

// modifyHeld has the provider complete what the device will not, after a move to the error
// state. Nothing was posted since the kernel flushed the queues.
func (qp *QP) modifyHeld(a *verbs.QPAttr, mask verbs.QPAttrMask) error {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	if err := qp.modify(a, mask, nothingMore); err != nil {
		return err
	}
	if mask&verbs.QPAttrState != 0 && a.State == verbs.QPStateErr {
		qp.beginFailing(moved)
	}
	return nil
}

// moved is for a QP that the kernel has just moved.
func moved() error { return nil }

// modify has the provider make the call, where it wants to; moved is called each time
// the kernel has done it. Both queues are held.
func (qp *QP) modify(a *verbs.QPAttr, mask verbs.QPAttrMask, moved func()) error {
	x := &modification{qp: qp, attr: a, mask: mask, moved: moved, call: call{memory: qp.memory, again: true}}
	x.issue = x.issueModify
	x.request = driver.ModifyQP{Call: &x.call, From: verbs.QPState(qp.state.Load()), Attr: a, Mask: mask}
	if x.request.To = x.request.From; mask&verbs.QPAttrState != 0 {
		x.request.To = a.State
	}
	if m, ok := qp.ring.(driver.QPModifier); ok {
		return m.Modify(&x.request)
	}
	return x.Do(driver.UHW{})
}

// A modification is all that one call of modify makes, in one piece: a queue pair is moved
// three or four times on its way into a connection.
type modification struct {
	call
	request driver.ModifyQP
	in      abi.IbUverbsModifyQp
	qp      *QP
	attr    *verbs.QPAttr
	mask    verbs.QPAttrMask
	moved   func()
}

// nothingMore is what a move has to do that is not to RESET.
func nothingMore() {}

// reset carries out a move to RESET and begins a new life. Nobody can post meanwhile:
// what came to a queue that the kernel is emptying would be left for the QP's next
// life. What the CQs still hold of the earlier one leaves their rings, so that whatever
// they tell of later is the next. When the kernel has done it the new life has begun,
// even if the provider fails after that.
func (qp *QP) reset(a *verbs.QPAttr, mask verbs.QPAttrMask) error {
	l := leaving{qp: qp}
	err := qp.resetHeld(a, mask, &l)
	tell(l.failures)
	return err
}

func (qp *QP) resetHeld(a *verbs.QPAttr, mask verbs.QPAttrMask, l *leaving) error {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	defer l.end()
	err := qp.modify(a, mask, l.begin)
	if l.begun {
		qp.life.Add(1)
		qp.setOdd()
	}
	return err
}

// issueModify makes the call to the kernel.
func (x *modification) issueModify(u driver.UHW, extra []driver.Attr) error {
	err := x.carryOut(u, extra)
	if err == nil {
		x.qp.state.Store(uint32(x.request.To)) // whatever the provider says
		x.moved()
	}
	return err
}

func (x *modification) carryOut(u driver.UHW, extra []driver.Attr) error {
	qp := x.qp
	x.in = qpToABI(x.attr)
	x.in.QpHandle, x.in.AttrMask = qp.handle, uint32(x.mask)
	if x.mask&verbs.QPAttrRateLimit == 0 && u.Out == nil {
		r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_MODIFY_QP, &x.in)
		defer r.Free()
		return qp.dev.doWith(r, u, extra)
	}
	ex := &abi.IbUverbsExModifyQp{Base: x.in, RateLimit: x.attr.RateLimit}
	r := writeCommand(qp.dev, ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_MODIFY_QP), ex)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, new(abi.IbUverbsExModifyQpResp))
	return qp.dev.doWith(r, u, extra)
}

// Query asks the kernel for the QP's attributes. Linux 6.1's siw always says
// RESET.
//
// C: ibv_query_qp
func (qp *QP) Query() (attr *verbs.QPAttr, err error) {
	err = qp.using("query", func() error {
		if attr, err = qp.issueQuery(); err != nil {
			return qp.fail("query", err, "")
		}
		return nil
	})
	return attr, err
}

func (qp *QP) issueQuery() (*verbs.QPAttr, error) {
	var resp abi.IbUverbsQueryQpResp
	in := &abi.IbUverbsQueryQp{QpHandle: qp.handle, AttrMask: uint32(verbs.QPAttrDestQPN<<1 - 1)}
	r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_QUERY_QP, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(qp.dev.file); err != nil {
		return nil, err
	}
	return newQPAttr(&resp), nil
}
