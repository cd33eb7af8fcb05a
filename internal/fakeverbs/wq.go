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
	MLX5          *MLX5QP // of a queue pair that has nothing but the WQ's receives
	k             *Kernel
}

// wqModel is a driver that has WQs.
type wqModel interface {
	createWQ(*WQ, *ioctl.Request) error
	modifyWQ(*WQ, *abi.IbUverbsExModifyWq, *ioctl.Request) error
	createRSSQP(*QP, *ioctl.Request) error
}

// States of a WQ.
const (
	wqReset = iota
	wqReady
	wqErr
)

const (
	wqAttrState = 1 << iota
	wqAttrCurState
	wqAttrFlags
)

// knownWQFlags are those that the core knows.
const knownWQFlags = abi.IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING | abi.IB_UVERBS_WQ_FLAGS_SCATTER_FCS |
	abi.IB_UVERBS_WQ_FLAGS_DELAY_DROP | abi.IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING

// createWQ wants a CQ, as every driver does.
func (k *Kernel) createWQ(r *ioctl.Request) error {
	value := func(id uint16) uint32 { v, _ := r.Value(id); return uint32(v) }
	parent, _, err := findIn[pd](k, "PD", r, abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE)
	if err != nil {
		return err
	}
	cq, body, err := findIn[*CQ](k, "CQ", r, abi.UVERBS_ATTR_CREATE_WQ_CQ_HANDLE)
	if err != nil {
		return err
	}
	w := &WQ{k: k, CQ: body, PD: value(abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE), Flags: value(abi.UVERBS_ATTR_CREATE_WQ_FLAGS),
		MaxWR: value(abi.UVERBS_ATTR_CREATE_WQ_MAX_WR), MaxSGE: value(abi.UVERBS_ATTR_CREATE_WQ_MAX_SGE)}
	if w.Flags&^knownWQFlags != 0 || value(abi.UVERBS_ATTR_CREATE_WQ_TYPE) != abi.IB_UVERBS_WQT_RQ {
		return syscall.EINVAL
	}
	w.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_WQ_USER_HANDLE)
	h := k.add("WQ", w, w.free, parent, cq)
	w.Num = 0x40 + h
	if err := k.model.(wqModel).createWQ(w, r); err != nil {
		_ = k.remove("WQ", h)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_WQ_HANDLE, h)
	for _, a := range []struct {
		id uint16
		v  uint32
	}{
		{abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, w.MaxWR}, {abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, w.MaxSGE}, {abi.UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, w.Num},
	} {
		if err := answer(r, a.id, a.v); err != nil {
			return err
		}
	}
	return nil
}

func (w *WQ) free() {
	if w.MLX5 != nil {
		w.MLX5.endWQ()
	}
}

func (k *Kernel) destroyWQ(r *ioctl.Request) error {
	_, w, err := findIn[*WQ](k, "WQ", r, abi.UVERBS_ATTR_DESTROY_WQ_HANDLE)
	if err != nil {
		return err
	}
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_WQ_HANDLE)
	if err := k.remove("WQ", uint32(h)); err != nil {
		return err
	}
	return answer(r, abi.UVERBS_ATTR_DESTROY_WQ_RESP, k.async.reported(w.Cookie, asyncEventSize))
}

func (k *Kernel) modifyWQ(r *ioctl.Request) error {
	in := request[abi.IbUverbsExModifyWq](r)
	if in.AttrMask == 0 || in.AttrMask > wqAttrState|wqAttrCurState|wqAttrFlags {
		return syscall.EINVAL
	}
	_, w, err := find[*WQ](k, "WQ", in.WqHandle)
	if err != nil || in.AttrMask&wqAttrCurState != 0 && in.CurrWqState > wqErr || in.AttrMask&wqAttrState != 0 && in.WqState > wqErr {
		return syscall.EINVAL
	}
	return k.model.(wqModel).modifyWQ(w, &in, r)
}

func (bare) createWQ(w *WQ, _ *ioctl.Request) error {
	if w.MaxWR == 0 || w.MaxSGE > (bare{}).limits().device.MaxSge {
		return syscall.EINVAL
	}
	return nil
}

// modifyWQ knows the moves of the specification.
func (bare) modifyWQ(w *WQ, in *abi.IbUverbsExModifyWq, _ *ioctl.Request) error {
	to := w.State
	if in.AttrMask&wqAttrState != 0 {
		to = in.WqState
	}
	switch {
	case in.AttrMask&wqAttrCurState != 0 && in.CurrWqState != w.State, w.State == wqErr && to == wqReady:
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

func (bare) createRSSQP(qp *QP, _ *ioctl.Request) error {
	if qp.Type != abi.IB_UVERBS_QPT_RAW_PACKET && qp.Type != abi.IB_UVERBS_QPT_UD {
		return syscall.EOPNOTSUPP
	}
	return nil
}

// Raise raises an asynchronous event of the WQ, an IB_EVENT_ number.
func (w *WQ) Raise(event uint32) { w.k.Async(w.Cookie, event) }

// WQs returns the WQs, lowest handle first.
func (k *Kernel) WQs() []*WQ { return bodies[*WQ](k) }
