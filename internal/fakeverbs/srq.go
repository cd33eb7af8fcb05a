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
	CQ                   *CQ    // for an SRQ of an XRC domain
	Num                  uint32 // the device's number of an SRQ of an XRC domain

	// Queue is the model's queue, or nil if the model has none.
	Queue SRQQueue

	PD     uint32 // handle of the PD
	k      *Kernel
	id     uint32
	domain *domain // XRC domain, or nil
	Mem    QueueMemory
}

// SRQQueue is a model's side of a shared receive queue. The kernel's lock is held.
type SRQQueue interface {
	// Free is called when the SRQ is destroyed.
	Free()
}

// Kernel returns the opening that the SRQ belongs to.
func (s *SRQ) Kernel() *Kernel { return s.k }

func (k *Kernel) createSRQ(r *ioctl.Request) error {
	value := func(id uint16) uint32 { v, _ := r.Value(id); return uint32(v) }
	parent, err := k.Find("PD", value(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE))
	if err != nil {
		return err
	}
	srq := &SRQ{k: k, PD: value(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE), MaxWR: value(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR), MaxSGE: value(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE),
		Limit: value(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT)}
	uses := []*object{parent}
	switch value(abi.UVERBS_ATTR_CREATE_SRQ_TYPE) {
	case abi.IB_UVERBS_SRQT_BASIC:
	case abi.IB_UVERBS_SRQT_XRC:
		more, err := srq.find(r)
		if err != nil {
			return err
		}
		uses = append(uses, more...)
	default:
		return syscall.EOPNOTSUPP
	}
	srq.Cookie, _ = r.Value(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE)
	srq.id = k.Add("SRQ", srq, srq.free, uses...)
	if err := k.Model.CreateSRQ(srq, r); err != nil {
		_ = k.Remove("SRQ", srq.id)
		return err
	}
	r.SetObject(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE, srq.id)
	if err := Answer(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, srq.MaxWR); err != nil {
		return err
	}
	if err := Answer(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, srq.MaxSGE); err != nil || srq.CQ == nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, srq.Num)
}

// find looks up the objects that an SRQ of an XRC domain uses, and assigns the number of the SRQ.
func (s *SRQ) find(r *ioctl.Request) (uses []*object, err error) {
	cq, body, err := FindIn[*CQ](s.k, "CQ", r, abi.UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE)
	if err != nil {
		return nil, err
	}
	xrcd, d, err := FindIn[*domain](s.k, "XRCD", r, abi.UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE)
	if err != nil {
		return nil, err
	}
	s.k.Device.mu.Lock()
	defer s.k.Device.mu.Unlock()
	s.k.Device.srqs++
	s.CQ, s.Num, s.domain = body, s.k.Device.srqs, d
	return []*object{cq, xrcd}, nil
}

func (s *SRQ) free() {
	if s.Queue != nil {
		s.Queue.Free()
	}
	s.Mem.Free()
}

func (k *Kernel) destroySRQ(r *ioctl.Request) error {
	h, _ := r.Value(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE)
	_, srq, err := find[*SRQ](k, "SRQ", uint32(h))
	if err != nil {
		return err
	}
	if err := k.Remove("SRQ", uint32(h)); err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_DESTROY_SRQ_RESP, abi.IbUverbsDestroySrqResp{
		EventsReported: k.async.reported(srq.Cookie, asyncEventSize),
	})
}

func (k *Kernel) modifySRQ(r *ioctl.Request) error {
	in := request[abi.IbUverbsModifySrq](r)
	_, srq, err := find[*SRQ](k, "SRQ", in.SrqHandle)
	if err != nil {
		return err
	}
	return k.Model.ModifySRQ(srq, &in, r)
}

func (k *Kernel) querySRQ(r *ioctl.Request) error {
	_, srq, err := find[*SRQ](k, "SRQ", request[abi.IbUverbsQuerySrq](r).SrqHandle)
	if err != nil {
		return err
	}
	return respond(r, abi.IbUverbsQuerySrqResp{MaxWr: srq.MaxWR, MaxSge: srq.MaxSGE, SrqLimit: srq.Limit})
}

// Seam returns the seam through which observers see the SRQ's receives.
func (s *SRQ) Seam() Seam { return Seam{Kernel: s.k, Object: s.id, srq: true, Kind: EntryRQE} }

// SRQs returns the shared receive queues, lowest handle first.
func (k *Kernel) SRQs() []*SRQ { return bodies[*SRQ](k) }
