// Package siw is the model of the soft iWARP driver, for package fakeverbs.
package siw

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

func init() {
	fakeverbs.Register(&fakeverbs.Driver{
		ID: abi.RDMA_DRIVER_SIW, Limits: limits, New: func(k *fakeverbs.Kernel) fakeverbs.Model { return &model{k: k} },
		Software: true, IgnoresIOVA: true, RefusedAccess: abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL | abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT,
	})
}

// model is a model of the soft iWARP driver.
type model struct {
	fakeverbs.Bare
	k      *fakeverbs.Kernel
	places fakeverbs.Numbers // places at which queues are mapped
}

func (m *model) Freed(key int64) { m.places.Free(uint32(key / room)) }

// Sizes of the entries, and of the control word after those of a CQ.
const (
	sqeSize  = 120
	rqeSize  = 112
	cqeSize  = 32
	ctrlSize = 8
)

const maxQP = 100 << 10

// limits returns the limits of siw.h.
func limits() fakeverbs.Limits {
	l := fakeverbs.BareLimits()
	d := &l.Device
	d.VendorId, d.VendorPartId, d.HwVer = 0x626d74, 1, 0
	d.MaxQp, d.MaxQpWr, d.MaxCq, d.MaxCqe = maxQP, 32768, 102400, 3276800
	d.MaxMr, d.MaxPd, d.MaxSrq, d.MaxSrqWr, d.MaxSrqSge = 1024000, 102400, 102400, 327680, abi.SIW_MAX_SGE
	d.MaxQpRdAtom, d.MaxQpInitRdAtom, d.MaxResRdAtom, d.PageSizeCap = 128, 128, maxQP*128, uint64(fakeverbs.PageSize)
	l.Port.PortCapFlags, l.Port.MaxMsgSz = 1<<16|1<<19, 1<<32-1 // a connection manager and device management
	return l
}

// Has returns false for the calls that siw does not implement.
func (*model) Has(call string) bool {
	switch call {
	case "CREATE_AH", "AH_DESTROY", "ALLOC_MW", "MW_DESTROY", "RESIZE_CQ", "REQ_NOTIFY_CQ", "ATTACH_MCAST", "DETACH_MCAST", "REREG_MR":
		return false
	}
	return true
}

// Map maps a queue. It requires the exact length. A queue can be mapped any number of times.
func (*model) Map(k *fakeverbs.Kernel, offset int64, length int) (*mmap.Region, error) {
	o, ok := k.Offers[offset]
	if !ok || fakeverbs.RoundUp(length) != len(o.Bytes) {
		return nil, syscall.EINVAL
	}
	return o.Mapped(len(o.Bytes))
}

// room is the size of a place for a queue, which is more than the longest queue needs. All places have the
// same size, so finding a free one is fast.
const room = 1 << 28

// alloc allocates a queue at the lowest free place.
func (m *model) alloc(mem *fakeverbs.QueueMemory, size int) (key int64, r *mmap.Region, err error) {
	n := m.places.Take(func(n uint32) bool { return m.k.Offers[int64(n)*room].Bytes != nil })
	key = int64(n) * room
	if r, err = mem.Alloc(m.k, key, size); err != nil {
		m.places.Free(n)
	}
	return key, r, err
}

func (*model) Context(r *ioctl.Request) error {
	return fakeverbs.AnswerDriver(r, abi.SiwUrespAllocCtx{DevId: 1})
}

func (m *model) CreateCQ(cq *fakeverbs.CQ, r *ioctl.Request) error {
	if n, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_CQE); n > uint64(cq.Kernel().Device.Limits.Device.MaxCqe) {
		return syscall.EINVAL
	}
	key, region, err := m.alloc(&cq.Mem, int(cq.Entries)*cqeSize+ctrlSize)
	if err != nil {
		return err
	}
	cq.Queue = &CQ{cq: cq}
	if CQOf(cq).ring, err = newRing(fakeverbs.Seam{Kernel: cq.Kernel(), Object: cq.ID, Kind: fakeverbs.EntryCQE}, region, cq.Entries, cqeSize); err != nil {
		return err
	}
	if CQOf(cq).notify, err = region.Word(int(cq.Entries) * cqeSize); err != nil {
		return syscall.EINVAL
	}
	return fakeverbs.AnswerDriver(r, abi.SiwUrespCreateCq{CqId: cq.ID, NumCqe: cq.Entries, CqKey: uint64(key)})
}

func (m *model) CreateQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	if qp.Type != abi.IB_UVERBS_QPT_RC {
		return syscall.EOPNOTSUPP
	}
	most := qp.Kernel().Device.Limits.Device.MaxQpWr
	if qp.Cap.MaxSendSge > abi.SIW_MAX_SGE || qp.Cap.MaxRecvSge > abi.SIW_MAX_SGE ||
		qp.Cap.MaxSendWr == 0 || qp.Cap.MaxSendWr > most || qp.Cap.MaxRecvWr > most || qp.Cap.MaxInlineData > abi.SIW_MAX_INLINE {
		return syscall.EINVAL
	}
	resp := abi.SiwUrespCreateQp{QpId: qp.Num, NumSqe: fakeverbs.RoundPow2(qp.Cap.MaxSendWr)}
	key, region, err := m.alloc(&qp.Mem, int(resp.NumSqe)*sqeSize)
	if err != nil {
		return err
	}
	resp.SqKey = uint64(key)
	q := &QP{qp: qp}
	qp.SetQueues(q)
	qp.CurState = abi.IB_QPS_INIT // the state that a query returns
	if q.sq, err = newRing(fakeverbs.Seam{Kernel: qp.Kernel(), Object: qp.Num, Kind: fakeverbs.EntrySQE}, region, resp.NumSqe, sqeSize); err != nil {
		return err
	}
	if qp.SRQ == nil && qp.Cap.MaxRecvWr > 0 {
		resp.NumRqe = fakeverbs.RoundPow2(qp.Cap.MaxRecvWr)
		if key, q.rq, err = m.recvRing(fakeverbs.Seam{Kernel: qp.Kernel(), Object: qp.Num, Kind: fakeverbs.EntryRQE}, &qp.Mem, resp.NumRqe); err != nil {
			return err
		}
		resp.RqKey = uint64(key)
	}
	return fakeverbs.AnswerDriver(r, resp)
}

func (m *model) CreateSRQ(srq *fakeverbs.SRQ, r *ioctl.Request) error {
	if srq.MaxWR == 0 || srq.MaxWR > srq.Kernel().Device.Limits.Device.MaxSrqWr || srq.MaxSGE > abi.SIW_MAX_SGE || srq.Limit > srq.MaxWR {
		return syscall.EINVAL
	}
	n := fakeverbs.RoundPow2(srq.MaxWR)
	key, rq, err := m.recvRing(srq.Seam(), &srq.Mem, n)
	if err != nil {
		return err
	}
	srq.Queue = &SRQ{srq: srq, rq: rq, armed: srq.Limit > 0}
	return fakeverbs.AnswerDriver(r, abi.SiwUrespCreateSrq{NumRqe: n, SrqKey: uint64(key)})
}

func (m *model) recvRing(at fakeverbs.Seam, mem *fakeverbs.QueueMemory, n uint32) (int64, *ring, error) {
	key, region, err := m.alloc(mem, int(n)*rqeSize)
	if err != nil {
		return 0, nil, err
	}
	rq, err := newRing(at, region, n, rqeSize)
	return key, rq, err
}

func (*model) RegMR(h uint32, r *ioctl.Request) (uint32, error) {
	var in abi.SiwUreqRegMr
	if !ioctl.Argument(r, abi.UVERBS_ATTR_UHW_IN, &in) {
		return 0, syscall.EINVAL
	}
	stag := (h+1)<<8 | uint32(in.StagKey)
	return stag, fakeverbs.AnswerDriver(r, abi.SiwUrespRegMr{Stag: stag})
}

// ModifyQP ignores all attributes but the state, and accepts all states but RTS, which only the connection manager
// sets. Most of them are ignored as well.
func (*model) ModifyQP(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	if in.AttrMask&abi.IB_QP_STATE == 0 {
		return nil
	}
	q := QPOf(qp)
	switch from, to := qp.CurState, in.QpState; {
	case from == abi.IB_QPS_ERR:
	case from == abi.IB_QPS_INIT && to == abi.IB_QPS_RTS:
		return syscall.EINVAL
	case to == abi.IB_QPS_ERR:
		q.EnterError()
	case from == abi.IB_QPS_RTS && to == abi.IB_QPS_SQD:
		q.CloseConn()
	case from == abi.IB_QPS_RTS && to == abi.IB_QPS_SQE:
		qp.CurState = to
	case from == abi.IB_QPS_SQD && (to == abi.IB_QPS_RESET || to == abi.IB_QPS_INIT):
		qp.CurState = abi.IB_QPS_INIT
	}
	return nil
}

func (*model) DestroyQP(qp *fakeverbs.QP) {
	if QPOf(qp) != nil {
		QPOf(qp).EnterError()
	}
}

func (*model) ModifySRQ(srq *fakeverbs.SRQ, in *abi.IbUverbsModifySrq, _ *ioctl.Request) error {
	switch {
	case in.AttrMask&abi.IB_SRQ_MAX_WR != 0:
		return syscall.EOPNOTSUPP
	case in.AttrMask&abi.IB_SRQ_LIMIT == 0: // other bits are ignored
		return nil
	case in.SrqLimit > fakeverbs.RoundPow2(srq.MaxWR):
		return syscall.EINVAL
	}
	srq.Limit = in.SrqLimit
	SRQOf(srq).armed = srq.Limit > 0
	return nil
}

func (*model) Waiting(qp *fakeverbs.QP) int { return QPOf(qp).sq.waiting() }

func (*model) Doorbell(qp *fakeverbs.QP) error {
	switch q := QPOf(qp); {
	case qp.CurState == abi.IB_QPS_ERR:
		return nil
	case qp.CurState != abi.IB_QPS_RTS:
		return syscall.ENOTCONN
	case !q.dropped && q.sq.refuses():
		return syscall.EINVAL
	}
	return nil
}

// CQOf returns siw's side of a completion queue, or nil.
func CQOf(cq *fakeverbs.CQ) *CQ {
	q, _ := cq.Queue.(*CQ)
	return q
}

// QPOf returns siw's side of a QP's queues, or nil.
func QPOf(qp *fakeverbs.QP) *QP {
	q, _ := qp.Made.(*QP)
	return q
}

// SRQOf returns siw's side of a shared receive queue, or nil.
func SRQOf(srq *fakeverbs.SRQ) *SRQ {
	q, _ := srq.Queue.(*SRQ)
	return q
}

// IsArmed implements [fakeverbs.CQQueue].
func (q *CQ) IsArmed() bool { return q.notify.Load() != abi.SIW_NOTIFY_NOT }

// Free implements [fakeverbs.CQQueue].
func (q *CQ) Free() {}

// Free implements [fakeverbs.SRQQueue].
func (q *SRQ) Free() {}
