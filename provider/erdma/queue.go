package erdma

import (
	"sync/atomic"

	"github.com/goverbs/goverbs/mmap"
)

// queue is a send or a receive queue, in blocks. The side that posts and the side that
// polls hold different locks, so each publishes its progress in an atomic counter. A work
// request's entry of wrs belongs to the poller from the time that produced has passed it
// until consumed has.
type queue struct {
	blocks   mmap.Array[block]
	depth    uint32 // blocks, a power of two
	wrs      []wr
	produced atomic.Uint32 // free-running, as is the next
	consumed atomic.Uint32
}

// wr describes the work request that begins at a block. The field blocks is 0 if none
// begins there.
type wr struct {
	id     uint64
	blocks uint32
}

func (q *queue) init(memory *mmap.Region, offset int, depth uint32) (err error) {
	q.blocks, err = mmap.NewArray[block](memory, offset, depth)
	q.depth, q.wrs = depth, make([]wr, depth)
	return err
}

// room returns the number of free blocks if the queue's producer index is pi.
func (q *queue) room(pi uint32) uint32 { return q.depth - (pi - q.consumed.Load()) }

// note records the work request at pi.
func (q *queue) note(pi uint32, id uint64, blocks uint32) {
	q.wrs[pi&(q.depth-1)] = wr{id, blocks}
	for i := uint32(1); i < blocks; i++ {
		q.wrs[(pi+i)&(q.depth-1)].blocks = 0
	}
}

// publish hands the work requests before pi to the poller. It must precede the doorbell.
func (q *queue) publish(pi uint32) { mmap.StoreRelease(&q.produced, pi) }

// empty reports whether all work requests have completed.
func (q *queue) empty() bool { return q.produced.Load() == q.consumed.Load() }

// isIdle reports whether no signaled send is outstanding. The unsignaled sends that follow
// the last signaled one may have succeeded without a completion, so nothing is known of
// them.
func (q *sendQueue) isIdle() bool {
	for at, end := q.consumed.Load(), q.produced.Load(); at != end; at++ {
		if q.wrs[at&(q.depth-1)].blocks > 0 && q.blocks.At(at)[0]&hdrSignaled != 0 {
			return false
		}
	}
	return true
}

// sendQueue is a send queue. A completion may be any distance ahead: it also completes the
// unsignaled sends before it.
type sendQueue struct{ queue }

// complete frees all blocks up to the end of the work request that begins at index, and
// returns its WRID. Only 16 bits of index are valid. ok is false if no outstanding work
// request begins there.
func (q *sendQueue) complete(index uint32) (id uint64, ok bool) {
	ci := q.consumed.Load()
	ahead := uint32(uint16(index) - uint16(ci))
	if ahead >= q.produced.Load()-ci {
		return 0, false
	}
	w := &q.wrs[(ci+ahead)&(q.depth-1)]
	if w.blocks == 0 {
		return 0, false
	}
	id = w.id
	mmap.StoreRelease(&q.consumed, ci+ahead+w.blocks)
	return id, true
}

// recvQueue is a receive queue. It completes in order.
type recvQueue struct{ queue }

// complete frees the oldest receive, which must be the one at index.
func (q *recvQueue) complete(index uint32) (id uint64, ok bool) {
	ci := q.consumed.Load()
	if ci == q.produced.Load() || (index-ci)&(q.depth-1) != 0 {
		return 0, false
	}
	id = q.wrs[ci&(q.depth-1)].id
	mmap.StoreRelease(&q.consumed, ci+1)
	return id, true
}
