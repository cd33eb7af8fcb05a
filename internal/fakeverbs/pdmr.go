package fakeverbs

import (
	"encoding/binary"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

type pd struct{}

func (k *Kernel) allocPD(r *ioctl.Request) error {
	if err := k.insist("ALLOC_PD", r); err != nil {
		return err
	}
	return respond(r, abi.IbUverbsAllocPdResp{PdHandle: k.Add("PD", pd{}, nothing)})
}

func (k *Kernel) destroyPD(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_PD_HANDLE)
	return k.Remove("PD", uint32(h))
}

// MR is a memory region as the kernel was told of it.
type MR struct {
	PD            uint32 // handle
	Start, Length uint64
	Access        uint32
	Key           uint32
	DM            *DM    // the device memory that it is of, if it is,
	Offset        uint64 // and where in it
	DMAH          *DMAH  // with which it was registered, if with one

	ended bool // by a work request
}

func (k *Kernel) regMR(r *ioctl.Request) error {
	if err := k.insist("REG_MR", r); err != nil {
		return err
	}
	in := request[abi.IbUverbsRegMr](r)
	parent, err := k.Find("PD", in.PdHandle)
	if err != nil {
		return err
	}
	paged := in.AccessFlags&abi.IB_UVERBS_ACCESS_ON_DEMAND != 0
	whole := paged && in.Start == 0 && in.Length == math.MaxUint64
	if in.Length == 0 || (in.Start^in.HcaVa)&uint64(PageSize-1) != 0 {
		return syscall.EINVAL
	}
	if err := k.checkAccess(in.AccessFlags); err != nil {
		return err
	}
	if whole && (in.HcaVa != 0 || k.limits().ODP.GeneralCaps&abi.IB_ODP_SUPPORT_IMPLICIT == 0) {
		return syscall.EINVAL
	}
	if err := k.User.Check(in.Start, in.Length); err != nil && !whole {
		return err
	}
	pages := int64((in.Start+in.Length+uint64(PageSize)-1)/uint64(PageSize)-in.Start/uint64(PageSize)) * int64(PageSize)
	if paged {
		pages = 0
	}
	if err := k.pin(pages); err != nil {
		return err
	}
	mr := &MR{PD: in.PdHandle, Start: in.HcaVa, Length: in.Length, Access: in.AccessFlags}
	unmap, err := k.moved(&in)
	if err != nil {
		_ = k.pin(-pages)
		return err
	}
	h, err := k.enlist(mr, r, func() { _ = k.pin(-pages); unmap() }, parent)
	if err != nil {
		return err
	}
	return respond(r, abi.IbUverbsRegMrResp{MrHandle: h, Lkey: mr.Key, Rkey: mr.Key})
}

// enlist makes a region an object of the kernel, with a key of the driver's. The end of the
// object calls undo.
func (k *Kernel) enlist(mr *MR, r *ioctl.Request, undo func(), parents ...*object) (handle uint32, err error) {
	h := k.Add("MR", mr, func() { delete(k.keys, mr.Key); undo() }, parents...)
	if mr.Key, err = k.Model.RegMR(h, r); err != nil {
		_ = k.Remove("MR", h)
		return 0, err
	}
	k.keys[mr.Key] = mr
	return h, nil
}

// answerMR tells the handle of a new region, and its key as both of its keys.
func answerMR(r *ioctl.Request, mr *MR, h uint32, handle, lkey, rkey uint16) error {
	r.SetObject(handle, h)
	if err := Answer(r, lkey, mr.Key); err != nil {
		return err
	}
	return Answer(r, rkey, mr.Key)
}

// moved has the device find memory at another address than the process does. Of another
// process's memory it can't.
func (k *Kernel) moved(in *abi.IbUverbsRegMr) (undo func(), err error) {
	if in.HcaVa == in.Start {
		return nothing, nil
	}
	if k.User != Memory(&k.lent) {
		return nil, syscall.EOPNOTSUPP
	}
	return k.lent.alias(in.Start, in.Length, in.HcaVa)
}

func (k *Kernel) pin(bytes int64) error {
	if k.Pin == nil {
		return nil
	}
	return k.Pin(bytes)
}

// OptionalAccess are the access flags that a device may ignore.
const OptionalAccess = 0x3ff00000

// checkAccess is ib_check_mr_access, and what the driver adds to it.
func (k *Kernel) checkAccess(access uint32) error {
	const (
		remote   = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
		known    = 0x3ff | OptionalAccess
		onDemand = abi.IB_UVERBS_ACCESS_ON_DEMAND
	)
	switch {
	case access&remote != 0 && access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0, access&^known != 0:
		return syscall.EINVAL
	case access&onDemand != 0 && !k.onDemand(), access&k.Device.driver.RefusedAccess != 0:
		return syscall.EOPNOTSUPP
	}
	return nil
}

// reregMR does what drivers in software can: another PD, other access.
func (k *Kernel) reregMR(r *ioctl.Request) error {
	in := request[abi.IbUverbsReregMr](r)
	switch {
	case in.Flags == 0:
		return syscall.EINVAL
	case in.Flags&^(abi.IB_MR_REREG_PD|abi.IB_MR_REREG_ACCESS) != 0:
		return syscall.EOPNOTSUPP
	}
	o, mr, err := find[*MR](k, "MR", in.MrHandle)
	if err != nil {
		return err
	}
	if in.Flags&abi.IB_MR_REREG_ACCESS != 0 {
		if err := k.checkAccess(in.AccessFlags); err != nil {
			return err
		}
	}
	if in.Flags&abi.IB_MR_REREG_PD != 0 {
		pd, err := k.Find("PD", in.PdHandle)
		if err != nil {
			return err
		}
		o.uses[0].refs--
		pd.refs++
		o.uses[0], mr.PD = pd, in.PdHandle
	}
	if in.Flags&abi.IB_MR_REREG_ACCESS != 0 {
		mr.Access = in.AccessFlags | mr.Access&abi.IB_UVERBS_ACCESS_ON_DEMAND // which is the memory's
	}
	return respond(r, abi.IbUverbsReregMrResp{Lkey: mr.Key, Rkey: mr.Key})
}

// adviseMR is in the core for all drivers, whether they carry it out or not.
func (k *Kernel) adviseMR(r *ioctl.Request) error {
	pd, _ := r.Value(abi.UVERBS_ATTR_ADVISE_MR_PD_HANDLE)
	if _, err := k.Find("PD", uint32(pd)); err != nil {
		return err
	}
	if !k.onDemand() {
		return syscall.EOPNOTSUPP
	}
	advice, _ := r.Value(abi.UVERBS_ATTR_ADVISE_MR_ADVICE)
	sges, _ := r.Bytes(abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST)
	if advice > abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || len(sges)%16 != 0 {
		return syscall.EINVAL
	}
	for ; len(sges) > 0; sges = sges[16:] {
		if err := k.prefetch(uint32(pd), advice, sges); err != nil {
			return err
		}
	}
	return nil
}

// prefetch refuses what drivers of hardware refuse of an SGE: a key of no region with on-demand paging,
// another domain's, one that is not writable, memory outside.
func (k *Kernel) prefetch(pd uint32, advice uint64, sge []byte) error {
	addr, length := binary.NativeEndian.Uint64(sge), binary.NativeEndian.Uint32(sge[8:])
	mr := k.keys[binary.NativeEndian.Uint32(sge[12:])]
	switch {
	case mr == nil || mr.Access&abi.IB_UVERBS_ACCESS_ON_DEMAND == 0:
		return syscall.ENOENT
	case mr.PD != pd, advice == abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE && mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0:
		return syscall.EPERM
	case !mr.covers(addr, uint64(length)) || k.User.Check(addr, uint64(length)) != nil:
		return syscall.EFAULT
	}
	return nil
}

func (k *Kernel) destroyMR(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_MR_HANDLE)
	return k.Remove("MR", uint32(h))
}

// MRs returns the memory regions, oldest handle first.
func (k *Kernel) MRs() []*MR { return bodies[*MR](k) }
