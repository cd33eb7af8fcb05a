// Package rxe is the model of the soft RoCE driver, for package fakeverbs.
package rxe

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

func init() {
	fakeverbs.Register(&fakeverbs.Driver{
		ID: abi.RDMA_DRIVER_RXE, Limits: limits, New: func(k *fakeverbs.Kernel) fakeverbs.Model { return &model{k: k} },
		Software: true, RoCE: true, FirstQPN: firstQPN, CountsWindows: true, KeepsRegions: true,
		RefusedAccess: ^uint32(access | abi.IB_UVERBS_ACCESS_ON_DEMAND),
	})
}

// model is a model of the soft RoCE driver of Linux 6.12.
type model struct {
	fakeverbs.Bare
	k      *fakeverbs.Kernel
	offset int64  // offset of the last offered queue
	ahNum  uint32 // number of the last address handle
	send   Send   // the last one taken
}

// Limits of rxe, from rxe_param.h.
const (
	firstQPN   = 17
	maxWR      = 1 << 20
	maxCQE     = 1<<15 - 1
	maxSGE     = 32
	maxInline  = 512
	maxSRQSGE  = 27
	maxGIDs    = 1024
	maxRDAtom  = 128
	caps       = 0x1c001223c76
	access     = 0xf | abi.IB_UVERBS_ACCESS_MW_BIND | flush | optional
	flush      = abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL | abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT
	optional   = fakeverbs.OptionalAccess
	maxMessage = 1 << 31
)

func limits() fakeverbs.Limits {
	l := fakeverbs.BareLimits()
	l.Caps, l.Device.DeviceCapFlags = caps, caps&(1<<32-1)
	l.Device.MaxSge, l.Device.MaxSgeRd, l.Device.MaxQpWr = maxSGE, maxSGE, maxWR
	l.Device.MaxCqe, l.Device.MaxSrqWr, l.Device.MaxSrqSge = maxCQE, maxWR, maxSRQSGE
	l.Device.MaxAh, l.Device.MaxMw, l.Device.AtomicCap = 1<<15-1, 1<<19-1, 1
	l.Device.MaxMcastGrp, l.Device.MaxMcastQpAttach, l.Device.MaxTotalMcastQpAttach = 8192, 56, 0x70000
	l.Device.MaxQpRdAtom, l.Device.MaxQpInitRdAtom, l.Device.MaxPkeys = maxRDAtom, maxRDAtom, 64
	l.Device.MaxCq, l.Device.MaxPd, l.Device.MaxMr, l.Device.MaxSrq = 1<<20, 1<<20, 1<<19-1, 917503
	l.Device.MaxQp, l.Device.MaxResRdAtom = 1<<20-16, 0x3f000
	l.Port.PortCapFlags, l.Port.MaxVlNum = 1<<16, 1 // a connection manager
	l.Device.VendorId, l.Device.LocalCaAckDelay, l.Device.PageSizeCap = 0xffffff, 15, 0xfffff000
	l.Port.MaxMsgSz, l.Port.GidTblLen, l.Port.PkeyTblLen, l.Port.Flags = maxMessage, maxGIDs, 1, 1
	l.GIDs = []abi.IbUverbsGidEntry{fakeverbs.GIDEntry(fakeverbs.LinkLocalGID, 0, abi.IB_UVERBS_GID_TYPE_ROCE_V2),
		fakeverbs.GIDEntry(fakeverbs.IPv4GID, 1, abi.IB_UVERBS_GID_TYPE_ROCE_V2)}
	return l
}

func (*model) Has(string) bool { return true }

// Map maps an offer once, in whole or in part.
func (*model) Map(k *fakeverbs.Kernel, offset int64, length int) (*mmap.Region, error) {
	o, ok := k.Offers[offset]
	if !ok || fakeverbs.RoundUp(length) > len(o.Bytes) {
		return nil, syscall.EINVAL
	}
	delete(k.Offers, offset)
	return o.Mapped(fakeverbs.RoundUp(length))
}

func (m *model) CreateCQ(cq *fakeverbs.CQ, r *ioctl.Request) error {
	n, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_CQE)
	if n > maxCQE || !fakeverbs.HasRoom(r, 16) {
		return syscall.EINVAL
	}
	if flags, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_FLAGS); flags != 0 {
		return syscall.EOPNOTSUPP
	}
	ring, mi, err := m.newRing(fakeverbs.Seam{Object: cq.ID, Kind: fakeverbs.EntryCQE}, &cq.Mem, uint32(n), cqeSize)
	if err != nil {
		return err
	}
	cq.Queue, cq.Entries = &CQ{cq: cq, ring: ring}, ring.mask
	return fakeverbs.AnswerDriver(r, abi.RxeCreateCqResp{Mi: mi})
}

func (m *model) CreateSRQ(srq *fakeverbs.SRQ, r *ioctl.Request) error {
	if srq.MaxWR == 0 || srq.MaxWR > maxWR || srq.MaxSGE > maxSRQSGE || !fakeverbs.HasRoom(r, 24) {
		return syscall.EINVAL
	}
	srq.MaxSGE = max(srq.MaxSGE, 1)
	ring, mi, err := m.newRing(srq.Seam(), &srq.Mem, srq.MaxWR, recvSize(srq.MaxSGE))
	if err != nil {
		return err
	}
	srq.Queue, srq.MaxWR = &SRQ{srq: srq, ring: ring}, ring.mask
	return fakeverbs.AnswerDriver(r, abi.RxeCreateSrqResp{Mi: mi, SrqNum: 0x20001})
}

// RegMR returns the key of a region, which is both lkey and rkey. User space gets it from the core's answer.
func (*model) RegMR(h uint32, _ *ioctl.Request) (uint32, error) { return (h+1)<<8 | 0xa5, nil }

// CreateAH creates an address handle. It supports old user space, whose answer has no room for the number.
func (m *model) CreateAH(ah *fakeverbs.AH, r *ioctl.Request) error {
	if !fakeverbs.HasRoom(r, 8) {
		return nil
	}
	m.ahNum++
	ah.Num, ah.Attr.Grh.HopLimit = m.ahNum, ah.Hops
	return fakeverbs.AnswerDriver(r, abi.RxeCreateAhResp{AhNum: m.ahNum})
}

// CQOf returns rxe's side of a completion queue, or nil.
func CQOf(cq *fakeverbs.CQ) *CQ {
	q, _ := cq.Queue.(*CQ)
	return q
}

// QPOf returns rxe's side of a QP's queues, or nil.
func QPOf(qp *fakeverbs.QP) *QP {
	q, _ := qp.Made.(*QP)
	return q
}

// SRQOf returns rxe's side of a shared receive queue, or nil.
func SRQOf(srq *fakeverbs.SRQ) *SRQ {
	q, _ := srq.Queue.(*SRQ)
	return q
}

// IsArmed implements [fakeverbs.CQQueue].
func (q *CQ) IsArmed() bool { return q.notify != 0 }

// Free implements [fakeverbs.CQQueue].
func (q *CQ) Free() {}

// Free implements [fakeverbs.SRQQueue].
func (q *SRQ) Free() {}
