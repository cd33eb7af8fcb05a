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
	memory, ok := k.memory[offset]
	if !ok || roundUp(length) != len(memory) {
		return nil, syscall.EINVAL
	}
	return mmap.Wrap(memory)
}

// siwAlloc makes room for a queue at the lowest free offset.
func siwAlloc(k *Kernel, m *memory, size int) (key int64, r *mmap.Region, err error) {
	for k.memory[key] != nil {
		key += int64(pageSize)
	}
	r, err = m.alloc(k, key, size)
	return key, r, err
}

func (siw) context(r *ioctl.Request) error { return uhw(r, abi.SiwUrespAllocCtx{DevId: 1}) }

func (siw) createCQ(cq *CQ, r *ioctl.Request) error {
	key, region, err := siwAlloc(cq.k, &cq.memory, int(cq.Entries)*cqeSize+ctrlSize)
	if err != nil {
		return err
	}
	cq.SIW = &SIWCQ{cq: cq}
	if cq.SIW.ring, err = newSIWRing(region, cq.Entries, cqeSize); err != nil {
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
	if qp.Cap.MaxSendSge > abi.SIW_MAX_SGE || qp.Cap.MaxRecvSge > abi.SIW_MAX_SGE || qp.Cap.MaxSendWr == 0 {
		return syscall.EINVAL
	}
	resp := abi.SiwUrespCreateQp{QpId: qp.Num, NumSqe: roundPow2(qp.Cap.MaxSendWr)}
	key, region, err := siwAlloc(qp.k, &qp.memory, int(resp.NumSqe)*sqeSize)
	if err != nil {
		return err
	}
	resp.SqKey = uint64(key)
	qp.SIW = &SIWQP{qp: qp}
	if qp.SIW.sq, err = newSIWRing(region, resp.NumSqe, sqeSize); err != nil {
		return err
	}
	if qp.srq == nil && qp.Cap.MaxRecvWr > 0 {
		resp.NumRqe = roundPow2(qp.Cap.MaxRecvWr)
		if key, qp.SIW.rq, err = recvRing(qp.k, &qp.memory, resp.NumRqe); err != nil {
			return err
		}
		resp.RqKey = uint64(key)
	}
	return uhw(r, resp)
}

func (siw) createSRQ(srq *SRQ, r *ioctl.Request) error {
	n := roundPow2(srq.MaxWR)
	key, rq, err := recvRing(srq.k, &srq.memory, n)
	if err != nil {
		return err
	}
	srq.SIW = &SIWSRQ{srq: srq, rq: rq}
	return uhw(r, abi.SiwUrespCreateSrq{NumRqe: n, SrqKey: uint64(key)})
}

func recvRing(k *Kernel, m *memory, n uint32) (int64, *siwRing, error) {
	key, region, err := siwAlloc(k, m, int(n)*rqeSize)
	if err != nil {
		return 0, nil, err
	}
	rq, err := newSIWRing(region, n, rqeSize)
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
	case state == abi.IB_QPS_RTR || state == abi.IB_QPS_RTS || qp.state == abi.IB_QPS_ERR:
		return syscall.EINVAL // only the connection manager moves it there
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

func (siw) doorbell(qp *QP) error {
	switch qp.state {
	case abi.IB_QPS_RTS, abi.IB_QPS_ERR:
		return nil
	}
	return syscall.ENOTCONN
}
