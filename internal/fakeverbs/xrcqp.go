package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// target is a target QP of an XRC domain, which may have handles in several processes. Each
// handle is a QP without queues. It is guarded by the device's lock.
type target struct {
	num     uint32
	state   uint8
	attr    abi.IbUverbsModifyQp
	handles map[*QP]bool
}

// createTarget is the part of QP_CREATE that is for target QPs. The core does without the
// driver's private bytes.
func (k *Kernel) createTarget(r *ioctl.Request) error {
	for _, id := range []uint16{abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
		abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE} {
		if _, ok := r.Value(id); ok {
			return syscall.EINVAL
		}
	}
	o, d, err := findIn[*domain](k, "XRCD", r, abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE)
	if err != nil {
		return err
	}
	flags, _ := r.Value(abi.UVERBS_ATTR_CREATE_QP_FLAGS)
	if flags&^abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0 {
		return syscall.EINVAL
	}
	qp := &QP{k: k, Type: abi.IB_UVERBS_QPT_XRC_TGT, queues: gone{}}
	qp.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE)
	ioctl.Argument(r, abi.UVERBS_ATTR_CREATE_QP_CAP, &qp.Cap)
	if m, ok := k.model.(interface{ createTarget(*ioctl.Request) error }); ok {
		if err := m.createTarget(r); err != nil {
			return err
		}
	}
	k.device.add(qp)
	t := &target{num: qp.Num, handles: make(map[*QP]bool)}
	k.join(t, d, qp, o)
	r.SetObject(abi.UVERBS_ATTR_CREATE_QP_HANDLE, qp.id)
	if err := answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qp.Num); err != nil {
		return err
	}
	return answer(r, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, qp.Cap)
}

func (k *Kernel) openQP(r *ioctl.Request) error {
	in := request[abi.IbUverbsOpenQp](r)
	o, d, err := find[*domain](k, "XRCD", in.PdHandle)
	if err != nil {
		return syscall.EINVAL
	}
	k.device.mu.Lock()
	t := d.targets[in.Qpn]
	k.device.mu.Unlock()
	if t == nil || in.QpType != abi.IB_UVERBS_QPT_XRC_TGT {
		return syscall.EINVAL
	}
	qp := &QP{k: k, Type: abi.IB_UVERBS_QPT_XRC_TGT, queues: gone{}, Num: t.num, Cookie: in.UserHandle}
	k.join(t, d, qp, o)
	return respond(r, abi.IbUverbsCreateQpResp{QpHandle: qp.id, Qpn: qp.Num})
}

// join makes a handle of a target QP, which goes with its last handle.
func (k *Kernel) join(t *target, d *domain, qp *QP, domain *object) {
	k.device.mu.Lock()
	defer k.device.mu.Unlock()
	qp.target, qp.domain, t.handles[qp], d.targets[t.num] = t, d, true, t
	qp.id = k.add("QP", qp, func() {
		if k.device.part(t, d, qp) {
			k.device.remove(qp)
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

// shared has f work on the state that a target QP's handles share, or on a QP's own.
func (qp *QP) shared(f func() error) error {
	t := qp.target
	if t == nil {
		return f()
	}
	qp.k.device.mu.Lock()
	defer qp.k.device.mu.Unlock()
	qp.state, qp.attr = t.state, t.attr
	err := f()
	t.state, t.attr = qp.state, qp.attr
	return err
}

// Raise raises an asynchronous event of the queue pair, an IB_EVENT_ number, with all who have
// a handle of it.
func (qp *QP) Raise(event uint32) {
	all := []*QP{qp}
	if t := qp.target; t != nil {
		qp.k.device.mu.Lock()
		all = nil
		for other := range t.handles {
			all = append(all, other)
		}
		qp.k.device.mu.Unlock()
	}
	for _, each := range all {
		each.k.Async(each.Cookie, event)
	}
}
