package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// SRQ is the kernel's side of a shared receive queue.
type SRQ struct {
	Cookie               uint64
	MaxWR, MaxSGE, Limit uint32

	// The queue itself, of the device's driver.
	SIW *SIWSRQ
	RXE *RXESRQ

	k      *Kernel
	memory memory
}

func (k *Kernel) createSRQ(r *ioctl.Request) error {
	value := func(id uint16) uint32 { v, _ := r.Value(id); return uint32(v) }
	parent, err := k.find("PD", value(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE))
	if err != nil {
		return err
	}
	srq := &SRQ{k: k, MaxWR: value(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR), MaxSGE: value(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE),
		Limit: value(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT)}
	switch {
	case value(abi.UVERBS_ATTR_CREATE_SRQ_TYPE) != abi.IB_UVERBS_SRQT_BASIC:
		return syscall.EOPNOTSUPP
	case srq.MaxWR == 0:
		return syscall.EINVAL
	}
	srq.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE)
	h := k.add("SRQ", srq, func() { srq.memory.free() }, parent)
	if err := k.model.createSRQ(srq, r); err != nil {
		_ = k.remove("SRQ", h)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE, h)
	if err := answer(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, srq.MaxWR); err != nil {
		return err
	}
	return answer(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, srq.MaxSGE)
}

func (k *Kernel) destroySRQ(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE)
	if err := k.remove("SRQ", uint32(h)); err != nil {
		return err
	}
	return answer(r, abi.UVERBS_ATTR_DESTROY_SRQ_RESP, abi.IbUverbsDestroySrqResp{})
}

func (k *Kernel) modifySRQ(r *ioctl.Request) error {
	in := request[abi.IbUverbsModifySrq](r)
	_, srq, err := find[*SRQ](k, "SRQ", in.SrqHandle)
	if err != nil {
		return err
	}
	return k.model.modifySRQ(srq, &in, r)
}

func (k *Kernel) querySRQ(r *ioctl.Request) error {
	_, srq, err := find[*SRQ](k, "SRQ", request[abi.IbUverbsQuerySrq](r).SrqHandle)
	if err != nil {
		return err
	}
	return respond(r, abi.IbUverbsQuerySrqResp{MaxWr: srq.MaxWR, MaxSge: srq.MaxSGE, SrqLimit: srq.Limit})
}

// SRQs returns the shared receive queues, lowest handle first.
func (k *Kernel) SRQs() []*SRQ { return bodies[*SRQ](k) }
