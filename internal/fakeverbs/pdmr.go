package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

type pd struct{}

func (k *Kernel) allocPD(r *ioctl.Request) error {
	return respond(r, abi.IbUverbsAllocPdResp{PdHandle: k.add("PD", pd{}, nothing)})
}

func (k *Kernel) destroyPD(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_PD_HANDLE)
	return k.remove("PD", uint32(h))
}

// MR is a memory region as the kernel was told of it.
type MR struct {
	Start, Length uint64
	Access        uint32
	Key           uint32
}

func (k *Kernel) regMR(r *ioctl.Request) error {
	in := request[abi.IbUverbsRegMr](r)
	parent, err := k.find("PD", in.PdHandle)
	if err != nil {
		return err
	}
	const remote = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	if in.Length == 0 || (in.Start^in.HcaVa)&uint64(pageSize-1) != 0 ||
		in.AccessFlags&remote != 0 && in.AccessFlags&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0 {
		return syscall.EINVAL
	}
	mr := &MR{Start: in.Start, Length: in.Length, Access: in.AccessFlags}
	h := k.add("MR", mr, nothing, parent)
	if mr.Key, err = k.model.regMR(h, r); err != nil {
		_ = k.remove("MR", h)
		return err
	}
	return respond(r, abi.IbUverbsRegMrResp{MrHandle: h, Lkey: mr.Key, Rkey: mr.Key})
}

func (k *Kernel) destroyMR(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_MR_HANDLE)
	return k.remove("MR", uint32(h))
}

// MRs returns the memory regions, oldest handle first.
func (k *Kernel) MRs() []*MR { return bodies[*MR](k) }
