package mlx5

import (
	"math"
	"sync/atomic"

	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// sendQueue is a ring of blocks. The side that posts and the side that polls hold different
// locks, so each publishes its progress in an atomic counter. An entry of sent belongs to
// the poller from the time that produced has passed it until completed has.
type sendQueue struct {
	segs      mmap.Array[segment]
	ring      mmap.Array[block] // views the same memory
	memory    []byte            // views the same memory
	blocks    uint32            // a power of two
	depth     uint32            // in requests; there is room for as many of any size
	maxSGE    int
	pi        uint32 // blocks posted, free-running
	sent      []sent // by block
	produced  atomic.Uint32
	completed atomic.Uint32 // both in requests, free-running
}

// sent describes the request that begins at a block.
type sent struct {
	id     uint64
	number uint32 // of the request, free-running
	op     verbs.WCOpcode
}

// init sets up the queue in memory from at on.
func (s *sendQueue) init(memory *mmap.Region, at int, size *sizes) (err error) {
	s.segs, err = mmap.NewArray[segment](memory, at, size.blocks*blockSegs)
	if err != nil {
		return err
	}
	if s.ring, err = mmap.NewArray[block](memory, at, size.blocks); err != nil {
		return err
	}
	s.memory = memory.Bytes()[at:][:size.blocks*blockSize]
	s.blocks, s.depth, s.maxSGE, s.sent = size.blocks, size.cap.MaxSendWR, int(size.cap.MaxSendSGE), make([]sent, size.blocks)
	s.reset()
	return nil
}

// reset empties the queue. Blocks at which no request begins get a number that was never
// posted.
func (s *sendQueue) reset() {
	for i := range s.sent {
		s.sent[i].number = math.MaxUint32
	}
	s.pi = 0
	s.produced.Store(0)
	s.completed.Store(0)
}

// note records the request that begins at the next block.
func (s *sendQueue) note(number uint32, id uint64, op verbs.WCOpcode) {
	s.sent[s.pi&(s.blocks-1)] = sent{id, number, op}
}

// complete frees all requests up to the one that begins at a block, and fills in that one's
// completion. It returns false if no outstanding request begins there. data is the message
// that the device left in the completion.
func (s *sendQueue) complete(c *mlx5Context, index uint16, bytes uint32, data []byte, wc *verbs.WC) bool {
	if s.blocks == 0 {
		return false
	}
	done, produced := s.completed.Load(), s.produced.Load()
	w := &s.sent[uint32(index)&(s.blocks-1)]
	if produced == done || w.number-done >= produced-done {
		return false
	}
	wc.WRID, wc.Opcode = w.id, w.op
	switch w.op {
	case verbs.WCRDMARead:
		wc.ByteLen = bytes
	case verbs.WCCompareSwap, verbs.WCFetchAdd:
		wc.ByteLen = atomicSize
	}
	if len(data) > 0 {
		if status := s.fetched(c, index, data, wc); status != verbs.StatusSuccess {
			*wc = verbs.WC{WRID: wc.WRID, QPN: wc.QPN, Status: status}
		}
	}
	mmap.StoreRelease(&s.completed, w.number+1)
	return true
}

// stream returns the stream of the DCI's request that begins at a block.
func (s *sendQueue) stream(index uint16) uint16 {
	if s.blocks == 0 {
		return 0
	}
	return uint16(be64(s.ring.At(uint32(index))[0][1]) >> (32 + ctrlStreamShift))
}

// plain finds the successful send or write that an entry with this last word completes. It returns nil
// if the entry is another one. Of the requests, done are done and produced were posted.
func (s *sendQueue) plain(last, done, produced uint32) *sent {
	entries := s.sent // none without a send queue
	if block := int(be16(uint16(last))) & (len(entries) - 1); block < len(entries) && last < (cqeRequest+1)<<cqeOpShift {
		if w := &entries[block]; w.number-done < produced-done && w.op <= verbs.WCRDMAWrite {
			return w
		}
	}
	return nil
}

// isIdle reports whether no signaled send is outstanding. The unsignaled sends that follow
// the last signaled one may have succeeded without a completion, so nothing is known of
// them.
func (s *sendQueue) isIdle() bool {
	done, produced := s.completed.Load(), s.produced.Load()
	for i := range s.sent {
		if s.sent[i].number-done < produced-done && be64(s.ring.At(uint32(i))[0][1])>>32&ctrlCompletion != 0 {
			return false
		}
	}
	return true
}

// wrapped returns a copy of a request that wraps around the end of the queue. end is beyond that.
func (q *qp) wrapped(start, end int) []byte {
	whole := q.whole[:end-start]
	copy(whole[copy(whole, q.sq.memory[start:]):], q.sq.memory)
	return whole
}
