package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// WQ is the kernel's side of a receive queue without a QP.
type WQ struct {
	Cookie        uint64
	Num           uint32
	MaxWR, MaxSGE uint32
	Flags         uint32
	State         uint32
	CQ            *CQ
	PD            uint32  // handle
	Queue         WQQueue // the queue itself, as the device's model keeps it; nil if it keeps none
	k             *Kernel
}

// wqModel is a driver that has WQs.
type wqModel interface {
	CreateWQ(*WQ, *ioctl.Request) error
	ModifyWQ(*WQ, *abi.IbUverbsExModifyWq, *ioctl.Request) error
	CreateRSSQP(*QP, *ioctl.Request) error
}

// WQQueue is a model's side of a WQ. The kernel's lock is held.
type WQQueue interface {
	// StandIn returns a queue pair that has nothing but the WQ's receives.
	StandIn() *QP
	// EndWQ ends the queue, with its WQ.
	EndWQ()
}

// States of a WQ.
const (
	WQReset = iota
	WQReady
	wqErr
)

const (
	WQAttrState = 1 << iota
	wqAttrCurState
	wqAttrFlags
)

// knownWQFlags are those that the core knows.
const knownWQFlags = abi.IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING | abi.IB_UVERBS_WQ_FLAGS_SCATTER_FCS |
	abi.IB_UVERBS_WQ_FLAGS_DELAY_DROP | abi.IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING

// createWQ wants a CQ, as every driver does.
func (k *Kernel) createWQ(r *ioctl.Request) error {
	value := func(id uint16) uint32 { v, _ := r.Value(id); return uint32(v) }
	parent, _, err := FindIn[pd](k, "PD", r, abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE)
	if err != nil {
		return err
	}
	cq, body, err := FindIn[*CQ](k, "CQ", r, abi.UVERBS_ATTR_CREATE_WQ_CQ_HANDLE)
	if err != nil {
		return err
	}
	w := &WQ{k: k, CQ: body, PD: value(abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE), Flags: value(abi.UVERBS_ATTR_CREATE_WQ_FLAGS),
		MaxWR: value(abi.UVERBS_ATTR_CREATE_WQ_MAX_WR), MaxSGE: value(abi.UVERBS_ATTR_CREATE_WQ_MAX_SGE)}
	if w.Flags&^knownWQFlags != 0 || value(abi.UVERBS_ATTR_CREATE_WQ_TYPE) != abi.IB_UVERBS_WQT_RQ {
		return syscall.EINVAL
	}
	w.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_WQ_USER_HANDLE)
	h := k.Add("WQ", w, w.free, parent, cq)
	w.Num = 0x40 + h
	if err := k.Model.(wqModel).CreateWQ(w, r); err != nil {
		_ = k.Remove("WQ", h)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_WQ_HANDLE, h)
	for _, a := range []struct {
		id uint16
		v  uint32
	}{
		{abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, w.MaxWR}, {abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, w.MaxSGE}, {abi.UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, w.Num},
	} {
		if err := Answer(r, a.id, a.v); err != nil {
			return err
		}
	}
	return nil
}

func (w *WQ) free() {
	if w.Queue != nil {
		w.Queue.EndWQ()
	}
}

func (k *Kernel) destroyWQ(r *ioctl.Request) error {
	_, w, err := FindIn[*WQ](k, "WQ", r, abi.UVERBS_ATTR_DESTROY_WQ_HANDLE)
	if err != nil {
		return err
	}
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_WQ_HANDLE)
	if err := k.Remove("WQ", uint32(h)); err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_DESTROY_WQ_RESP, k.async.reported(w.Cookie, asyncEventSize))
}

func (k *Kernel) modifyWQ(r *ioctl.Request) error {
	in := request[abi.IbUverbsExModifyWq](r)
	if in.AttrMask == 0 || in.AttrMask > WQAttrState|wqAttrCurState|wqAttrFlags {
		return syscall.EINVAL
	}
	_, w, err := find[*WQ](k, "WQ", in.WqHandle)
	if err != nil || in.AttrMask&wqAttrCurState != 0 && in.CurrWqState > wqErr || in.AttrMask&WQAttrState != 0 && in.WqState > wqErr {
		return syscall.EINVAL
	}
	return k.Model.(wqModel).ModifyWQ(w, &in, r)
}

func (Bare) CreateWQ(w *WQ, _ *ioctl.Request) error {
	if w.MaxWR == 0 || w.MaxSGE > BareLimits().Device.MaxSge {
		return syscall.EINVAL
	}
	return nil
}

// ModifyWQ knows the moves of the specification.
func (Bare) ModifyWQ(w *WQ, in *abi.IbUverbsExModifyWq, _ *ioctl.Request) error {
	to := w.State
	if in.AttrMask&WQAttrState != 0 {
		to = in.WqState
	}
	switch {
	case in.AttrMask&wqAttrCurState != 0 && in.CurrWqState != w.State, w.State == wqErr && to == WQReady:
		return syscall.EINVAL
	case in.AttrMask&wqAttrFlags != 0 && in.FlagsMask&^abi.IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING != 0:
		return syscall.EOPNOTSUPP
	}
	if in.AttrMask&wqAttrFlags != 0 {
		w.Flags = w.Flags&^in.FlagsMask | in.Flags&in.FlagsMask
	}
	w.State = to
	return nil
}

func (Bare) CreateRSSQP(qp *QP, _ *ioctl.Request) error {
	if qp.Type != abi.IB_UVERBS_QPT_RAW_PACKET && qp.Type != abi.IB_UVERBS_QPT_UD {
		return syscall.EOPNOTSUPP
	}
	return nil
}

// Raise raises an asynchronous event of the WQ, an IB_EVENT_ number.
func (w *WQ) Raise(event uint32) { w.k.Async(w.Cookie, event) }

// WQs returns the WQs, lowest handle first.
func (k *Kernel) WQs() []*WQ { return bodies[*WQ](k) }
