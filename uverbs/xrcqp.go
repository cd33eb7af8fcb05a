package uverbs

import (
	"errors"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// CreateQP makes a target QP: the one that a peer's QP of type [verbs.QPTypeXRCInitiator] is
// connected to. It has no queues of its own, and no PD: requests that arrive take receives of
// the domain's SRQs, and nothing can be posted. It needs no provider.
//
// C: ibv_create_qp_ex with IBV_QPT_XRC_RECV
func (x *XRCD) CreateQP() (*QP, error) { return x.newTarget("create", (*QP).createTarget) }

// OpenQP opens the target QP of that number, which another process of the domain made. All of
// them may modify it and hear its events. It exists until the last of them closes it.
//
// C: ibv_open_qp
func (x *XRCD) OpenQP(num uint32) (*QP, error) {
	return x.newTarget("open", func(qp *QP, x *XRCD) error { return qp.issueOpen(x, num) })
}

func (x *XRCD) newTarget(op string, issue func(*QP, *XRCD) error) (*QP, error) {
	d := x.dev
	qp := &QP{dev: d, typ: verbs.QPTypeXRCTarget, ring: noQueues{}, cookie: d.cookie(), memory: &memory{file: d.file}}
	if err := qp.attach("QP", &x.object); err != nil {
		return nil, err
	}
	if err := issue(qp, x); err != nil {
		qp.detach()
		return nil, qp.fail(op, err, targetHint(op, err))
	}
	d.events.add(qp.cookie, AsyncEvent{QP: qp})
	qp.setNumber(qp.num)
	return qp, nil
}

// createTarget has a provider add what its driver wants to know of a target QP.
func (qp *QP) createTarget(x *XRCD) error {
	c := qp.dev.creation(func(u driver.UHW, extra []driver.Attr) error { return qp.issueCreateTarget(x, u, extra) })
	var err error
	if p, ok := qp.dev.provider.(driver.XRCTargetCreator); ok {
		err = p.CreateXRCTarget(&driver.CreateXRCTarget{Call: c})
	} else {
		err = c.Do(qp.dev.bare().target())
	}
	qp.memory = c.memory
	return c.made(err, func() error { return qp.issueDestroy(qp.handle) })
}

func (qp *QP) issueCreateTarget(x *XRCD, u driver.UHW, extra []driver.Attr) error {
	var capIn, capOut abi.IbUverbsQpCap
	q := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, x.handle)
	q.U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, qp.cookie)
	q.Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(qp.typ))
	ioctl.In(q, abi.UVERBS_ATTR_CREATE_QP_CAP, &capIn)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &capOut)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qp.num)
	if err := qp.dev.doWith(q, u, extra); err != nil {
		return err
	}
	qp.handle = q.Created(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	return nil
}

func (qp *QP) issueOpen(x *XRCD, num uint32) error {
	var resp abi.IbUverbsCreateQpResp
	in := &abi.IbUverbsOpenQp{UserHandle: qp.cookie, PdHandle: x.handle, Qpn: num, QpType: uint8(qp.typ)}
	r := writeCommand(qp.dev, abi.IB_USER_VERBS_CMD_OPEN_QP, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(qp.dev.file); err != nil {
		return err
	}
	qp.handle, qp.num = resp.QpHandle, resp.Qpn
	return nil
}

func targetHint(op string, err error) string {
	if op == "open" && errors.Is(err, syscall.EINVAL) {
		return "the domain has no target QP of that number"
	}
	return createHint(err)
}
