package efa

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// recvQueue is memory with an entry for each SGE.
type recvQueue struct {
	ring     mmap.Array[rqe]
	doorbell doorbell
	entries  uint32 // a power of two
	depth    uint32 // receives that can be outstanding
	pc       uint32 // entries written, free-running
	maxSGE   int
	work     atomic.Pointer[pool]
}

// PostRecv queues receives and rings the doorbell once. Those with one SGE are the most frequent.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (n int, err error) {
	if q.state == verbs.QPStateReset || q.state == verbs.QPStateErr {
		return 0, q.notReceiving()
	}
	r := &q.rq
	work, ring, pc := r.work.Load(), r.ring, r.pc
	for ; n < len(wrs); n++ {
		wr := &wrs[n]
		sgl := wr.SGL // read once: the slice that is checked is used
		if len(sgl) != 1 {
			break
		}
		length, key, addr := sgl[0].Length, sgl[0].LKey, sgl[0].Addr
		if length == verbs.BadLength || key > keyMask {
			break
		}
		if work.room() == 0 {
			break
		}
		*ring.At(pc) = rqe{addr, uint16(work.take(wr.WRID)), uint16(min(length, mostLength)), key | rqeFirst | rqeLast}
		pc++
	}
	r.pc = pc
	if n < len(wrs) {
		n, err = r.postAll(wrs[:len(wrs):len(wrs)], n)
	}
	if n > 0 {
		r.doorbell.page.Store32(r.doorbell.offset, r.pc&idLow)
	}
	return n, err
}

// notReceiving returns the error of receives in RESET and ERR.
func (q *qp) notReceiving() error {
	return fmt.Errorf("%w: the QP is in %v; receives can be posted from INIT on, and not in ERR", syscall.EINVAL, q.state)
}

// postAll queues receives of all kinds from wrs[n] on.
func (r *recvQueue) postAll(wrs []verbs.RecvWR, n int) (int, error) {
	work := r.work.Load()
	for ; n < len(wrs); n++ {
		sgl := wrs[n].SGL // as in PostRecv
		if work.room() == 0 || uint(len(sgl)-1) >= uint(r.maxSGE) {
			return n, r.refuse(sgl, work)
		}
		for i := range sgl {
			length, key, flags := sgl[i].Length, sgl[i].LKey, uint32(0)
			if length == verbs.BadLength || key > keyMask {
				return n, r.refuse(sgl, work)
			}
			if i == 0 {
				flags |= rqeFirst
			}
			if i == len(sgl)-1 {
				flags |= rqeLast
			}
			*r.ring.At(r.pc + uint32(i)) = rqe{addr: sgl[i].Addr, length: uint16(min(length, mostLength)), key: key | flags}
		}
		r.ring.At(r.pc).id = uint16(work.take(wrs[n].WRID))
		r.pc += uint32(len(sgl))
	}
	return n, nil
}

// refuse returns the error of a receive that was not queued.
func (r *recvQueue) refuse(sgl []verbs.SGE, work *pool) error {
	if _, err := driver.SumSGL(sgl, r.maxSGE); err != nil {
		return err
	}
	if len(sgl) == 0 {
		return fmt.Errorf("%w: a receive of EFA needs an SGE", verbs.ErrInvalidWR)
	}
	for i := range sgl {
		if key := sgl[i].LKey; key > keyMask {
			return errKey(key)
		}
	}
	if work.room() == 0 {
		return verbs.ErrQueueFull
	}
	return errChanged
}
