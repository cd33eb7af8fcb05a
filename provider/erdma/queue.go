package erdma

import (
	"sync/atomic"

	"github.com/goverbs/goverbs/mmap"
)

// queue is a send or a receive queue, in blocks. The side that posts and the side that
// polls hold different locks, so each tells the other by an atomic counter how far it is;
// a work request's entry of wrs belongs to the poller from the time that produced says so,
// until consumed does.
type queue struct {
	blocks   mmap.Array[block]
	depth    uint32 // blocks, a power of two
	wrs      []wr
	produced atomic.Uint32 // free-running, as is the next
	consumed atomic.Uint32
}

// wr is what is known of the work request that begins at a block. Of blocks within one, and
// before the first, blocks is 0.
type wr struct {
	id     uint64
	blocks uint32
}

func (q *queue) init(memory *mmap.Region, offset int, depth uint32) (err error) {
	q.blocks, err = mmap.NewArray[block](memory, offset, depth)
	q.depth, q.wrs = depth, make([]wr, depth)
	return err
}

// room is the number of free blocks when the queue will be at pi.
func (q *queue) room(pi uint32) uint32 { return q.depth - (pi - q.consumed.Load()) }

// note remembers the work request at pi.
func (q *queue) note(pi uint32, id uint64, blocks uint32) {
	q.wrs[pi&(q.depth-1)] = wr{id, blocks}
	for i := uint32(1); i < blocks; i++ {
		q.wrs[(pi+i)&(q.depth-1)].blocks = 0
	}
}

// publish has the poller know what is before pi. It comes before the doorbell.
func (q *queue) publish(pi uint32) { mmap.StoreRelease(&q.produced, pi) }

// empty reports whether all work requests have completed.
func (q *queue) empty() bool { return q.produced.Load() == q.consumed.Load() }

// isIdle reports whether no send is outstanding that asked for a completion. Nobody can
// know of those that follow the last of these: they may have succeeded, without a completion.
func (q *sendQueue) isIdle() bool {
	for at, end := q.consumed.Load(), q.produced.Load(); at != end; at++ {
		if q.wrs[at&(q.depth-1)].blocks > 0 && q.blocks.At(at)[0]&hdrSignaled != 0 {
			return false
		}
	}
	return true
}

// sendQueue completes in any distance: sends that asked for no completion are passed over.
type sendQueue struct{ queue }

// complete frees all blocks up to the end of the work request that begins at index, of
// which a device tells 16 bits, and returns its WRID. It refuses one that begins nowhere
// among those outstanding.
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

// recvQueue completes in order.
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
