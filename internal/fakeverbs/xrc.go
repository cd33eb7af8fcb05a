package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// domain is an XRC domain of a device. It is guarded by the device's lock.
type domain struct {
	inode   uint64 // inode of the file through which it is shared, or 0
	users   int
	targets map[uint32]*target // by number
}

// hardwareCalls holds the calls that only drivers of hardware have.
var hardwareCalls = map[string]bool{
	"OPEN_XRCD": true, "XRCD_DESTROY": true, "OPEN_QP": true,
	"WQ_CREATE": true, "WQ_DESTROY": true, "MODIFY_WQ": true, "CREATE_RWQ_IND_TBL": true, "RWQ_IND_TBL_DESTROY": true,
	"CREATE_FLOW": true, "FLOW_DESTROY": true, "COUNTERS_CREATE": true, "COUNTERS_DESTROY": true, "COUNTERS_READ": true,
	"DM_ALLOC": true, "DM_FREE": true, "DM_MR_REG": true, "MODIFY_CQ": true,
	"DMAH_ALLOC": true, "DMAH_FREE": true,
}

// has reports whether the device's driver has a call in this kernel.
func (k *Kernel) has(call string) bool {
	return k.Model.Has(call) && (k.Newest || !newest[call]) && !(k.isSoftware() && hardwareCalls[call])
}

// isSoftware reports whether the driver has only the features of Linux's software drivers.
func (k *Kernel) isSoftware() bool {
	return k.Device.driver.Software
}

func (k *Kernel) openXRCD(r *ioctl.Request) error {
	const create, exclusive = 0o100, 0o200 // O_CREAT and O_EXCL
	in := request[abi.IbUverbsOpenXrcd](r)
	d := &domain{targets: make(map[uint32]*target)}
	if fd := int32(in.Fd); fd != -1 {
		inode, err := k.Inode(fd)
		if err != nil {
			return syscall.EBADF
		}
		k.Device.mu.Lock()
		defer k.Device.mu.Unlock()
		switch found := k.Device.domains[inode]; {
		case found == nil && in.Oflags&create == 0:
			return syscall.EAGAIN
		case found != nil && in.Oflags&exclusive != 0:
			return syscall.EINVAL
		case found != nil:
			d = found
		default:
			d.inode = inode
			k.Device.domains[inode] = d
		}
	}
	d.users++
	h := k.Add("XRCD", d, func() { k.Device.leave(d) })
	return respond(r, abi.IbUverbsOpenXrcdResp{XrcdHandle: h})
}

func (d *Device) leave(x *domain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x.users--; x.users == 0 && x.inode != 0 {
		delete(d.domains, x.inode)
	}
}

func (k *Kernel) destroyXRCD(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_XRCD_HANDLE)
	return k.Remove("XRCD", uint32(h))
}

// Domains returns the number of XRC domains that are shared through a file.
func (d *Device) Domains() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.domains)
}

// target is a target QP of an XRC domain, which may have handles in several processes. Each
// handle is a QP without queues. It is guarded by the device's lock.
type target struct {
	num     uint32
	state   uint8
	attr    abi.IbUverbsModifyQp
	handles map[*QP]bool
}

// targeter is a model that reads private bytes of target QPs.
type targeter interface{ CreateTarget(*ioctl.Request) error }

// createTarget is the part of QP_CREATE for target QPs. The core doesn't need the driver's private bytes.
func (k *Kernel) createTarget(r *ioctl.Request) error {
	for _, id := range []uint16{abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
		abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE} {
		if _, ok := r.Value(id); ok {
			return syscall.EINVAL
		}
	}
	o, d, err := FindIn[*domain](k, "XRCD", r, abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE)
	if err != nil {
		return err
	}
	flags, _ := r.Value(abi.UVERBS_ATTR_CREATE_QP_FLAGS)
	if flags&^abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0 {
		return syscall.EINVAL
	}
	qp := &QP{k: k, Type: abi.IB_UVERBS_QPT_XRC_TGT, queues: Gone{}}
	qp.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE)
	ioctl.Argument(r, abi.UVERBS_ATTR_CREATE_QP_CAP, &qp.Cap)
	if m, ok := k.Model.(targeter); ok {
		if err := m.CreateTarget(r); err != nil {
			return err
		}
	}
	k.Device.Add(qp)
	t := &target{num: qp.Num, handles: make(map[*QP]bool)}
	k.join(t, d, qp, o)
	r.SetObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE, qp.id)
	if err := Answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qp.Num); err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, qp.Cap)
}

func (k *Kernel) openQP(r *ioctl.Request) error {
	in := request[abi.IbUverbsOpenQp](r)
	o, d, err := find[*domain](k, "XRCD", in.PdHandle)
	if err != nil {
		return syscall.EINVAL
	}
	k.Device.mu.Lock()
	t := d.targets[in.Qpn]
	k.Device.mu.Unlock()
	if t == nil || in.QpType != abi.IB_UVERBS_QPT_XRC_TGT {
		return syscall.EINVAL
	}
	qp := &QP{k: k, Type: abi.IB_UVERBS_QPT_XRC_TGT, queues: Gone{}, Num: t.num, Cookie: in.UserHandle}
	k.join(t, d, qp, o)
	return respond(r, abi.IbUverbsCreateQpResp{QpHandle: qp.id, Qpn: qp.Num})
}

// join creates a handle of a target QP. The target QP ends with its last handle.
func (k *Kernel) join(t *target, d *domain, qp *QP, domain *object) {
	k.Device.mu.Lock()
	defer k.Device.mu.Unlock()
	qp.target, qp.domain, t.handles[qp], d.targets[t.num] = t, d, true, t
	qp.id = k.Add("QP", qp, func() {
		if k.Device.part(t, d, qp) {
			k.Device.remove(qp)
		}
	}, domain)
}

func (d *Device) part(t *target, x *domain, qp *QP) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(t.handles, qp)
	if len(t.handles) > 0 {
		return false
	}
	delete(x.targets, t.num)
	return true
}

// Shared calls f after it has updated the QP's state. The handles of a target QP share their state, which f
// may change under the device's lock.
func (qp *QP) Shared(f func() error) error {
	t := qp.target
	if t == nil {
		return f()
	}
	qp.k.Device.mu.Lock()
	defer qp.k.Device.mu.Unlock()
	qp.CurState, qp.Attrs = t.state, t.attr
	err := f()
	t.state, t.attr = qp.CurState, qp.Attrs
	return err
}

// Raise raises an asynchronous event of the queue pair, an IB_EVENT_ number, in all openings with a handle
// of it.
func (qp *QP) Raise(event uint32) {
	all := []*QP{qp}
	if t := qp.target; t != nil {
		qp.k.Device.mu.Lock()
		all = nil
		for other := range t.handles {
			all = append(all, other)
		}
		qp.k.Device.mu.Unlock()
	}
	for _, each := range all {
		each.k.enter()
		each.k.Raise(each.Cookie, event)
		each.k.leave()
	}
}

// targetQueue is the queue of an SRQ in a model with XRC.
type targetQueue interface {
	// Target returns the queues of a target QP that receives through the SRQ. view is the QP from
	// the view of the SRQ's process.
	Target(view *QP, srq *SRQ) Queues
}

// Through returns a view of a target QP with the memory and the keys of the PD of the SRQ with a number. It
// returns nil if the domain has no such SRQ.
func (qp *QP) Through(srqn uint32) *QP {
	for _, k := range qp.Kernel().Device.Openings() {
		for _, s := range k.SRQs() {
			if s.CQ == nil || s.Num != srqn || s.domain != qp.domain {
				continue
			}
			q, ok := s.Queue.(targetQueue)
			if !ok {
				continue
			}
			view := NewQP(k, &QP{Num: qp.Num, Type: qp.Type, PD: s.PD, target: qp.target, domain: qp.domain})
			view.SetQueues(q.Target(view, s))
			_ = view.Shared(func() error { return nil }) // has its attributes
			return view
		}
	}
	return nil
}
