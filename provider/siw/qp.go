package siw

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
)

// qp holds a QP's two queues. The receive queue is nil if the QP uses an SRQ.
type qp struct {
	sq        *mmap.FlagProducer[abi.SiwSqe]
	rq        *recvQueue
	doorbell  func() error
	num       uint32
	maxSGE    int
	maxInline int
	flags     uint32 // of every send
	connected bool   // the kernel once accepted a doorbell, so the QP has been in RTS; also set when the QP failed
	failed    bool   // the kernel takes no more work; written with both queues held
}

func (c *siwContext) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	r.Cap.MaxSendWR = max(r.Cap.MaxSendWR, 1) // siw has no QP without a send queue
	var resp abi.SiwUrespCreateQp
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	q := &qp{doorbell: c.device.Doorbell(r.Handle), num: r.Num, flags: abi.SIW_WQE_VALID}
	if r.SignalAll {
		q.flags |= abi.SIW_WQE_SIGNALLED
	}
	if err := q.mapSend(r, &resp); err != nil {
		return nil, err
	}
	if r.SRQ == nil && resp.NumRqe > 0 {
		if err := q.mapRecv(r, &resp); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func (q *qp) mapSend(r *driver.CreateQP, resp *abi.SiwUrespCreateQp) error {
	region, err := mapQueue(r, resp.SqKey, resp.NumSqe, sqeSize, 0)
	if err != nil {
		return err
	}
	q.sq, err = mmap.NewFlagProducer[abi.SiwSqe](region, resp.NumSqe, ownerWord)
	r.Cap.MaxSendWR = resp.NumSqe
	r.Cap.MaxSendSGE = min(r.Cap.MaxSendSGE, abi.SIW_MAX_SGE)
	r.Cap.MaxInline = abi.SIW_MAX_INLINE
	q.maxSGE, q.maxInline = int(r.Cap.MaxSendSGE), int(r.Cap.MaxInline)
	return err
}

func (q *qp) mapRecv(r *driver.CreateQP, resp *abi.SiwUrespCreateQp) error {
	region, err := mapQueue(r, resp.RqKey, resp.NumRqe, rqeSize, 0)
	if err != nil {
		return err
	}
	r.Cap.MaxRecvWR = resp.NumRqe
	r.Cap.MaxRecvSGE = min(r.Cap.MaxRecvSGE, abi.SIW_MAX_SGE)
	q.rq, err = newRecvQueue(region, resp.NumRqe, r.Cap.MaxRecvSGE)
	return err
}
