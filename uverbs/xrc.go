package uverbs

import (
	"errors"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// XRCD is an XRC domain, which several processes of a host can share. A peer needs one QP for
// all of them, and each of its work requests names the SRQ that receives it. A process has
// SRQs of the domain ([SRQOptions]) and target QPs. One process creates a target QP, and the
// others open it. The peer sends on a QP of type [verbs.QPTypeXRCInitiator].
//
// C: struct ibv_xrcd
type XRCD struct {
	object
	dev    *Device
	handle uint32
}

// OpenXRCD opens an XRC domain. All processes that open it with the same file get the same
// domain; the file's content does not matter. With os.O_CREATE in flag, OpenXRCD creates the
// domain if the file has none yet. With os.O_EXCL as well, it fails if the file has one. file
// may be closed afterwards. If file is nil, the domain is private to this process.
//
// C: ibv_open_xrcd
func (d *Device) OpenXRCD(file *os.File, flag int) (*XRCD, error) {
	x := &XRCD{dev: d}
	if err := x.attach("XRCD", &d.object); err != nil {
		return nil, err
	}
	if err := x.open(file, flag); err != nil {
		x.detach()
		return nil, x.fail("open", err, xrcdHint(err))
	}
	x.created(x, x.handle)
	return x, nil
}

func (x *XRCD) open(file *os.File, flag int) (failed error) {
	if flag&^(os.O_CREATE|os.O_EXCL) != 0 {
		return syscall.EINVAL
	}
	if file == nil {
		return x.issueOpen(-1, flag)
	}
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	err = c.Control(func(fd uintptr) { failed = x.issueOpen(int32(fd), flag) })
	return errors.Join(err, failed)
}

func (x *XRCD) issueOpen(fd int32, flag int) error {
	var resp abi.IbUverbsOpenXrcdResp
	in := &abi.IbUverbsOpenXrcd{Fd: uint32(fd), Oflags: openFlags(flag)}
	r := writeCommand(x.dev, abi.IB_USER_VERBS_CMD_OPEN_XRCD, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(x.dev.file); err != nil {
		return err
	}
	x.handle = resp.XrcdHandle
	return nil
}

// O_CREAT and O_EXCL of Linux on amd64 and arm64. They differ on other systems.
const (
	linuxCreate = 0o100
	linuxExcl   = 0o200
)

func openFlags(flag int) (oflags uint32) {
	if flag&os.O_CREATE != 0 {
		oflags |= linuxCreate
	}
	if flag&os.O_EXCL != 0 {
		oflags |= linuxExcl
	}
	return oflags
}

// Close closes the domain. The kernel destroys it when the last process has closed it.
//
// C: ibv_close_xrcd
func (x *XRCD) Close() error {
	if x == nil {
		return closeNil("XRCD")
	}
	return x.close(func() error {
		r := x.dev.request(abi.UVERBS_OBJECT_XRCD, abi.UVERBS_METHOD_XRCD_DESTROY)
		defer r.Free()
		r.Handle(abi.UVERBS_ATTR_DESTROY_XRCD_HANDLE, x.handle)
		return r.Do(x.dev.file)
	}, noop)
}

// Device returns the device that the domain belongs to.
func (x *XRCD) Device() *Device { return x.dev }

// asObject returns nil for a nil XRCD.
func (x *XRCD) asObject() *object {
	if x == nil {
		return nil
	}
	return &x.object
}

func xrcdHint(err error) string {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return "the file has no domain: pass os.O_CREATE to create one (or " + limitHint + ")"
	case errors.Is(err, syscall.EINVAL):
		return "the file has a domain already, which os.O_EXCL refuses, or flags other than os.O_CREATE and os.O_EXCL are set"
	case ioctl.Unsupported(err):
		return "the driver does not support XRC"
	}
	return ""
}

// CreateQP creates a target QP. A peer connects its QP of type [verbs.QPTypeXRCInitiator] to it.
// A target QP has no PD and no queues, so nothing can be posted to it. Incoming requests take
// receives from the domain's SRQs. It needs no provider.
//
// C: ibv_create_qp_ex with IBV_QPT_XRC_RECV
func (x *XRCD) CreateQP() (*QP, error) { return x.newTarget("create", (*QP).createTarget) }

// OpenQP opens the target QP with the given number, which another process of the domain
// created. All processes may modify it, and all receive its events. It exists until the last of
// them closes it.
//
// C: ibv_open_qp
func (x *XRCD) OpenQP(num uint32) (*QP, error) {
	return x.newTarget("open", func(qp *QP, x *XRCD) error { return qp.issueOpen(x, num) })
}

func (x *XRCD) newTarget(op string, issue func(*QP, *XRCD) error) (*QP, error) {
	if x.isZero() {
		return nil, x.fail(op, verbs.ErrClosed, "")
	}
	d := x.dev
	qp := &QP{dev: d, typ: verbs.QPTypeXRCTarget, ring: driver.NoQueues{}, cookie: d.cookie(), memory: &memory{file: d.file}}
	qp.sends.init(qp)
	qp.setFastPath()
	if err := qp.attach("QP", &x.object); err != nil {
		return nil, err
	}
	if err := issue(qp, x); err != nil {
		qp.detach()
		return nil, qp.fail(op, err, targetHint(op, err))
	}
	d.events.add(qp.cookie, AsyncEvent{QP: qp})
	qp.created(qp, qp.num.Load())
	return qp, nil
}

// createTarget creates a target QP. A provider that is a driver.XRCTargetCreator adds its
// driver's private bytes.
func (qp *QP) createTarget(x *XRCD) error {
	c := qp.dev.creation(func(u driver.UHW, extra []driver.Attr) error { return qp.issueCreateTarget(x, u, extra) })
	var err error
	if p, ok := qp.dev.provider.(driver.XRCTargetCreator); ok {
		var ring driver.QP
		if ring, err = p.CreateXRCTarget(&driver.CreateXRCTarget{Call: c}); err == nil {
			qp.ring = ring
		}
	} else {
		err = c.Do(qp.dev.bare().target())
	}
	qp.memory = c.memory
	return c.made(err, func() error { return qp.issueDestroy(qp.handle) })
}

func (qp *QP) issueCreateTarget(x *XRCD, u driver.UHW, extra []driver.Attr) error {
	var capIn, capOut abi.IbUverbsQpCap
	var num uint32
	q := qp.dev.request(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE)
	defer q.Free()
	q.NewObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	q.Handle(abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, x.handle)
	q.U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, qp.cookie)
	q.Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, uint64(qp.typ))
	ioctl.In(q, abi.UVERBS_ATTR_CREATE_QP_CAP, &capIn)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, &capOut)
	ioctl.Out(q, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &num)
	if err := qp.dev.doWith(q, u, extra); err != nil {
		return err
	}
	qp.handle = q.Created(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
	qp.num.Store(num)
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
	qp.handle = resp.QpHandle
	qp.num.Store(resp.Qpn)
	return nil
}

func targetHint(op string, err error) string {
	if op == "open" && errors.Is(err, syscall.EINVAL) {
		return "the domain has no target QP with that number"
	}
	return createHint(err)
}
