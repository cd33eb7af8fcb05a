package mlx5

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// recvQueue is a QP's own receive queue. The device may complete receives in any order, and
// reports their slots. A slot is free again when its receive has completed.
type recvQueue struct {
	segs    mmap.Array[segment]
	size    uint32 // segments of an entry
	maxSGE  int
	head    uint32 // posted, free-running
	entries []receive
}

// receive is an entry. The poster fills it and then sets pending. The poller clears pending.
type receive struct {
	id      uint64
	pending atomic.Uint32
}

func (q *recvQueue) init(memory *mmap.Region, entries, size, maxSGE uint32) (err error) {
	q.segs, err = mmap.NewArray[segment](memory, 0, entries*size)
	q.size, q.maxSGE, q.entries = size, int(maxSGE), make([]receive, entries)
	return err
}

func (q *recvQueue) reset() {
	q.head = 0
	for i := range q.entries {
		q.entries[i].pending.Store(0)
	}
}

var (
	errReset       = fmt.Errorf("%w: the QP is in RESET; receives can be posted from INIT on", syscall.EINVAL)
	errNoRecvQueue = fmt.Errorf("%w: the QP has no receive queue, or uses an SRQ", verbs.ErrInvalidWR)
)

// PostRecv queues receives. Its doorbell is the record alone. A raw packet QP's receive
// queue would take packets before the QP may, so its record is not updated before that.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (n int, err error) {
	if q.state == verbs.QPStateReset {
		return 0, errReset
	}
	r := &q.rq
	if r.maxSGE > 0 { // and so there are entries
		// Receives with one SGE are the most frequent.
		for ; n < len(wrs); n++ {
			wr := &wrs[n]
			sgl := wr.SGL
			if len(sgl) != 1 {
				break
			}
			s := &sgl[0]
			length, key, addr := s.Length, s.LKey, s.Addr
			place := r.head & uint32(len(r.entries)-1)
			e := &r.entries[place]
			if length-1 >= maxDataLength || e.pending.Load() != 0 { // also a length of 0, which is no SGE
				break
			}
			*r.segs.At(place * r.size) = segment{words(length, key), be64(addr)}
			if r.size > 1 {
				*r.segs.At(place*r.size + 1) = segment{words(0, invalidLKey)}
			}
			e.id = wr.WRID
			mmap.StoreRelease(&e.pending, 1)
			r.head++
		}
	}
	if n < len(wrs) {
		n, err = r.postAll(wrs, n)
	}
	if n > 0 && (q.typ != verbs.QPTypeRawPacket || q.state >= verbs.QPStateRTR) {
		q.record.set(recvWord, r.head&indexMask)
	}
	return n, err
}

// postAll posts receives of all kinds from wrs[n] on.
func (q *recvQueue) postAll(wrs []verbs.RecvWR, n int) (int, error) {
	if len(q.entries) == 0 {
		return 0, errNoRecvQueue
	}
	for ; n < len(wrs); n++ {
		if err := q.post(&wrs[n]); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (q *recvQueue) post(wr *verbs.RecvWR) error {
	sgl := wr.SGL // read once: the slice that is checked is used
	if err := checkReceive(sgl, q.maxSGE); err != nil {
		return err
	}
	place := q.head & uint32(len(q.entries)-1)
	e := &q.entries[place]
	if e.pending.Load() != 0 {
		return verbs.ErrQueueFull
	}
	putReceive(&q.segs, place*q.size, q.size, sgl)
	e.id = wr.WRID
	mmap.StoreRelease(&e.pending, 1)
	q.head++
	return nil
}

func checkReceive(sgl []verbs.SGE, maxSGE int) error {
	sum, err := driver.SumSGL(sgl, maxSGE)
	if err == nil && sum > maxDataLength {
		err = errTooLong(sum)
	}
	return err
}

// putReceive writes an entry: SGEs, and a mark after the last if there is room.
func putReceive(segs *mmap.Array[segment], at, room uint32, sgl []verbs.SGE) {
	n := uint32(0)
	for i := range sgl {
		if s := &sgl[i]; s.Length > 0 {
			*segs.At(at + n) = segment{words(s.Length, s.LKey), be64(s.Addr)}
			n++
		}
	}
	if n < room {
		*segs.At(at + n) = segment{words(0, invalidLKey)}
	}
}

// isEmpty reports whether all receives have completed.
func (q *recvQueue) isEmpty() bool {
	for i := range q.entries {
		if q.entries[i].pending.Load() != 0 {
			return false
		}
	}
	return true
}

// complete frees a slot. It copies the message if the device left it in the completion. It
// returns false for a slot that has no receive.
func (q *recvQueue) complete(c *mlx5Context, index uint16, data []byte, wc *verbs.WC) bool {
	if len(q.entries) == 0 {
		return false
	}
	place := uint32(index) & uint32(len(q.entries)-1)
	e := &q.entries[place]
	if e.pending.Load() == 0 {
		return false
	}
	wc.WRID = e.id
	if len(data) > 0 {
		wc.Status = c.scatter(&q.segs, place*q.size, q.size, data)
	}
	mmap.StoreRelease(&e.pending, 0)
	return true
}

// received finds a completed receive in the QP's own queue or the SRQ.
func (q *qp) received(s *srq, index uint16, data []byte, wc *verbs.WC) bool {
	if s == nil {
		return q.rq.complete(q.ctx, index, data, wc)
	}
	return s.complete(index, data, wc)
}
