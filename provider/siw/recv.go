package siw

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

var errNoRecvQueue = fmt.Errorf("%w: the QP has no receive queue of its own (it uses an SRQ, or MaxRecvWR was 0)", verbs.ErrInvalidWR)

// recvQueue is the receive queue of a QP or an SRQ.
type recvQueue struct {
	ring   *mmap.FlagProducer[abi.SiwRqe]
	maxSGE int
}

func newRecvQueue(region *mmap.Region, n, maxSGE uint32) (*recvQueue, error) {
	ring, err := mmap.NewFlagProducer[abi.SiwRqe](region, n, ownerWord)
	if err != nil {
		return nil, err
	}
	return &recvQueue{ring: ring, maxSGE: int(maxSGE)}, nil
}

func (q *recvQueue) post(wrs []verbs.RecvWR) (int, error) {
	slots, room := q.ring.Room(len(wrs))
	for i := range wrs {
		wr := &wrs[i]
		sgl := wr.SGL // read once: the slice that is checked is used
		if i >= room || !isOne(sgl, q.maxSGE) {
			if err := q.check(sgl, i < room); err != nil {
				q.ring.Publish(i)
				return i, err
			}
		}
		e := slots.At(i)
		e.Id = wr.WRID
		putSGL(&e.Sge, sgl)
		// The kernel ignores entries that have any other flag.
		q.ring.Stage(i, e, abi.SIW_WQE_VALID|uint32(len(sgl))<<16)
	}
	q.ring.Publish(len(wrs))
	return len(wrs), nil
}

// check returns the reason why a receive can't be queued, or nil.
func (q *recvQueue) check(sgl []verbs.SGE, hasRoom bool) error {
	if _, err := driver.SumSGL(sgl, q.maxSGE); err != nil || hasRoom {
		return err
	}
	return verbs.ErrQueueFull
}

// srq is a shared receive queue.
type srq struct{ *recvQueue }

func (*siwContext) CreateSRQ(r *driver.CreateSRQ) (driver.SRQ, error) {
	var resp abi.SiwUrespCreateSrq
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	region, err := mapQueue(r, resp.SrqKey, resp.NumRqe, rqeSize, 0)
	if err != nil {
		return nil, err
	}
	r.MaxWR, r.MaxSGE = resp.NumRqe, min(r.MaxSGE, abi.SIW_MAX_SGE)
	q, err := newRecvQueue(region, resp.NumRqe, r.MaxSGE)
	return srq{q}, err
}

func (s srq) PostRecv(wrs []verbs.RecvWR) (int, error) { return s.post(wrs) }
