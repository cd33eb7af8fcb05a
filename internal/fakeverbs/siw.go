package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// siw answers as the soft iWARP driver.
type siw struct{}

// The word that says whose an entry is, and the sizes of entries.
const (
	ownerWord = 8
	sqeSize   = 120
	rqeSize   = 112
	cqeSize   = 32
	ctrlSize  = 8
)

// uhw writes a driver's answer; siw insists on room for all of it.
func uhw[T any](r *ioctl.Request, v T) error { return answer(r, abi.UVERBS_ATTR_UHW_OUT, v) }

func (siw) context(r *ioctl.Request) error { return uhw(r, abi.SiwUrespAllocCtx{DevId: 1}) }

func (siw) createCQ(cq *CQ, r *ioctl.Request) error {
	key, region, err := cq.memory.alloc(cq.k, int(cq.Entries)*cqeSize+ctrlSize)
	if err != nil {
		return err
	}
	if cq.ring, err = mmap.NewFlagProducer[abi.SiwCqe](region, cq.Entries, ownerWord); err != nil {
		return syscall.EINVAL
	}
	if cq.notify, err = region.Word(int(cq.Entries) * cqeSize); err != nil {
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
	key, region, err := qp.memory.alloc(qp.k, int(resp.NumSqe)*sqeSize)
	if err != nil {
		return err
	}
	resp.SqKey = uint64(key)
	if qp.sq, err = mmap.NewFlagConsumer[abi.SiwSqe](region, resp.NumSqe, ownerWord); err != nil {
		return syscall.EINVAL
	}
	if qp.srq == nil && qp.Cap.MaxRecvWr > 0 {
		resp.NumRqe = roundPow2(qp.Cap.MaxRecvWr)
		if key, qp.rq, err = recvRing(qp.k, &qp.memory, resp.NumRqe); err != nil {
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
	srq.rq = rq
	return uhw(r, abi.SiwUrespCreateSrq{NumRqe: n, SrqKey: uint64(key)})
}

func recvRing(k *Kernel, m *memory, n uint32) (int64, *mmap.FlagConsumer[abi.SiwRqe], error) {
	key, region, err := m.alloc(k, int(n)*rqeSize)
	if err != nil {
		return 0, nil, err
	}
	rq, err := mmap.NewFlagConsumer[abi.SiwRqe](region, n, ownerWord)
	if err != nil {
		return 0, nil, syscall.EINVAL
	}
	return key, rq, nil
}

func (siw) regMR(h uint32, r *ioctl.Request) (uint32, error) {
	var in abi.SiwUreqRegMr
	if !ioctl.Argument(r, abi.UVERBS_ATTR_UHW_IN, &in) {
		return 0, syscall.EINVAL
	}
	stag := (h+1)<<8 | uint32(in.StagKey)
	return stag, uhw(r, abi.SiwUrespRegMr{Stag: stag})
}

func (siw) modifyQP(qp *QP, state uint8) error {
	switch {
	case state == abi.IB_QPS_ERR:
		qp.fail()
	case state == abi.IB_QPS_RTR || state == abi.IB_QPS_RTS || qp.state == abi.IB_QPS_ERR:
		return syscall.EINVAL // only the connection manager moves it there
	default:
		qp.state = state
	}
	return nil
}

func (siw) doorbell(qp *QP) error {
	switch qp.state {
	case abi.IB_QPS_RTS, abi.IB_QPS_ERR:
		return nil
	}
	return syscall.ENOTCONN
}
