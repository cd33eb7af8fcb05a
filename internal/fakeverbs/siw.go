package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// siw answers as the soft iWARP driver.
type siw struct{ bare }

// Sizes of the entries, and of what stands behind a CQ's.
const (
	sqeSize  = 120
	rqeSize  = 112
	cqeSize  = 32
	ctrlSize = 8
)

// limits are those of siw.h.
func (siw) limits() limits {
	l := bare{}.limits()
	d := &l.device
	d.VendorId, d.VendorPartId, d.HwVer = 0x626d74, 1, 0
	d.MaxQp, d.MaxQpWr, d.MaxCq, d.MaxCqe = MaxQP, 32768, 102400, 3276800
	d.MaxMr, d.MaxPd, d.MaxSrq, d.MaxSrqWr, d.MaxSrqSge = 1024000, 102400, 102400, 327680, abi.SIW_MAX_SGE
	d.MaxQpRdAtom, d.MaxQpInitRdAtom, d.PageSizeCap = 128, 128, uint64(pageSize)
	return l
}

// uhw writes a driver's answer; siw insists on room for all of it.
func uhw[T any](r *ioctl.Request, v T) error { return answer(r, abi.UVERBS_ATTR_UHW_OUT, v) }

// has leaves out what siw has no functions for.
func (siw) has(call string) bool {
	switch call {
	case "CREATE_AH", "AH_DESTROY", "ALLOC_MW", "MW_DESTROY", "RESIZE_CQ", "REQ_NOTIFY_CQ", "ATTACH_MCAST", "DETACH_MCAST", "REREG_MR":
		return false
	}
	return true
}

// mmap wants the exact length, and maps as often as it is asked to.
func (siw) mmap(k *Kernel, offset int64, length int) (*mmap.Region, error) {
	o, ok := k.memory[offset]
	if !ok || roundUp(length) != len(o.bytes) {
		return nil, syscall.EINVAL
	}
	return o.mapped(len(o.bytes))
}

// siwRoom is more than the longest queue takes, so that each has its place whatever its
// length, and a free place is found at once.
const siwRoom = 1 << 28

// siwAlloc makes room for a queue at the lowest free place.
func siwAlloc(k *Kernel, m *memory, size int) (key int64, r *mmap.Region, err error) {
	n := k.places.take(func(n uint32) bool { return k.memory[int64(n)*siwRoom].bytes != nil })
	key = int64(n) * siwRoom
	if r, err = m.alloc(k, key, size); err != nil {
		k.places.free(n)
	}
	return key, r, err
}

func (siw) context(r *ioctl.Request) error { return uhw(r, abi.SiwUrespAllocCtx{DevId: 1}) }

func (siw) createCQ(cq *CQ, r *ioctl.Request) error {
	if n, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_CQE); n > uint64(cq.k.device.limits.device.MaxCqe) {
		return syscall.EINVAL
	}
	key, region, err := siwAlloc(cq.k, &cq.memory, int(cq.Entries)*cqeSize+ctrlSize)
	if err != nil {
		return err
	}
	cq.SIW = &SIWCQ{cq: cq}
	if cq.SIW.ring, err = newSIWRing(seam{k: cq.k, object: cq.id, kind: EntryCQE}, region, cq.Entries, cqeSize); err != nil {
		return err
	}
	if cq.SIW.notify, err = region.Word(int(cq.Entries) * cqeSize); err != nil {
		return syscall.EINVAL
	}
	return uhw(r, abi.SiwUrespCreateCq{CqId: cq.id, NumCqe: cq.Entries, CqKey: uint64(key)})
}

func (siw) createQP(qp *QP, r *ioctl.Request) error {
	if qp.Type != abi.IB_UVERBS_QPT_RC {
		return syscall.EOPNOTSUPP
	}
	most := qp.k.device.limits.device.MaxQpWr
	if qp.Cap.MaxSendSge > abi.SIW_MAX_SGE || qp.Cap.MaxRecvSge > abi.SIW_MAX_SGE ||
		qp.Cap.MaxSendWr == 0 || qp.Cap.MaxSendWr > most || qp.Cap.MaxRecvWr > most {
		return syscall.EINVAL
	}
	resp := abi.SiwUrespCreateQp{QpId: qp.Num, NumSqe: roundPow2(qp.Cap.MaxSendWr)}
	key, region, err := siwAlloc(qp.k, &qp.memory, int(resp.NumSqe)*sqeSize)
	if err != nil {
		return err
	}
	resp.SqKey = uint64(key)
	qp.SIW = &SIWQP{qp: qp}
	qp.queues, qp.state = qp.SIW, abi.IB_QPS_INIT // as a query shows it
	if qp.SIW.sq, err = newSIWRing(seam{k: qp.k, object: qp.Num, kind: EntrySQE}, region, resp.NumSqe, sqeSize); err != nil {
		return err
	}
	if qp.srq == nil && qp.Cap.MaxRecvWr > 0 {
		resp.NumRqe = roundPow2(qp.Cap.MaxRecvWr)
		if key, qp.SIW.rq, err = recvRing(seam{k: qp.k, object: qp.Num, kind: EntryRQE}, &qp.memory, resp.NumRqe); err != nil {
			return err
		}
		resp.RqKey = uint64(key)
	}
	return uhw(r, resp)
}

func (siw) createSRQ(srq *SRQ, r *ioctl.Request) error {
	if srq.MaxWR == 0 || srq.MaxWR > srq.k.device.limits.device.MaxSrqWr || srq.MaxSGE > abi.SIW_MAX_SGE || srq.Limit > srq.MaxWR {
		return syscall.EINVAL
	}
	n := roundPow2(srq.MaxWR)
	key, rq, err := recvRing(srq.seam(), &srq.memory, n)
	if err != nil {
		return err
	}
	srq.SIW = &SIWSRQ{srq: srq, rq: rq}
	return uhw(r, abi.SiwUrespCreateSrq{NumRqe: n, SrqKey: uint64(key)})
}

func recvRing(at seam, m *memory, n uint32) (int64, *siwRing, error) {
	key, region, err := siwAlloc(at.k, m, int(n)*rqeSize)
	if err != nil {
		return 0, nil, err
	}
	rq, err := newSIWRing(at, region, n, rqeSize)
	return key, rq, err
}

func (siw) regMR(h uint32, r *ioctl.Request) (uint32, error) {
	var in abi.SiwUreqRegMr
	if !ioctl.Argument(r, abi.UVERBS_ATTR_UHW_IN, &in) {
		return 0, syscall.EINVAL
	}
	stag := (h+1)<<8 | uint32(in.StagKey)
	return stag, uhw(r, abi.SiwUrespRegMr{Stag: stag})
}

func (siw) modifyQP(qp *QP, in *abi.IbUverbsModifyQp) error {
	qp.attr = *in
	switch state := in.QpState; {
	case in.AttrMask&abi.IB_QP_STATE == 0:
	case state == abi.IB_QPS_ERR:
		qp.SIW.fail()
	case qp.state == abi.IB_QPS_ERR: // it stays there
	case state == abi.IB_QPS_RTS:
		return syscall.EINVAL // only the connection manager moves it there
	case state == abi.IB_QPS_RTR: // means nothing
	default:
		qp.state = state
	}
	return nil
}

func (siw) destroyQP(qp *QP) {
	if qp.SIW != nil {
		qp.SIW.fail()
	}
}

func (siw) modifySRQ(srq *SRQ, in *abi.IbUverbsModifySrq, _ *ioctl.Request) error {
	if in.AttrMask != abi.IB_SRQ_LIMIT || in.SrqLimit > srq.MaxWR {
		return syscall.EINVAL
	}
	srq.Limit = in.SrqLimit
	return nil
}

func (siw) waiting(qp *QP) int { return qp.SIW.sq.waiting() }

func (siw) doorbell(qp *QP) error {
	switch qp.state {
	case abi.IB_QPS_RTS, abi.IB_QPS_ERR:
		return nil
	}
	return syscall.ENOTCONN
}
