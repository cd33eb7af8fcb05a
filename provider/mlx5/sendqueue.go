package mlx5

import (
	"math"
	"sync/atomic"

	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// sendQueue is a ring of blocks. The side that posts and the side that polls hold
// different locks, so each tells the other by an atomic counter how far it is. An entry of
// sent belongs to the poller from the time that produced says so, until completed does.
type sendQueue struct {
	segs      mmap.Array[segment]
	ring      mmap.Array[block] // the same
	memory    []byte            // the same
	blocks    uint32            // a power of two
	depth     uint32            // requests; that many have room, whatever their sizes
	maxSGE    int
	pi        uint32 // blocks posted, free-running
	sent      []sent // by block
	produced  atomic.Uint32
	completed atomic.Uint32 // both in requests, free-running
}

// sent is what is known of the request that begins at a block.
type sent struct {
	id     uint64
	number uint32 // of the request, free-running
	op     verbs.WCOpcode
}

// init makes the queue of memory from at on.
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

// reset empties the queue. Where no request begins, the number is one that was never
// posted.
func (s *sendQueue) reset() {
	for i := range s.sent {
		s.sent[i].number = math.MaxUint32
	}
	s.pi = 0
	s.produced.Store(0)
	s.completed.Store(0)
}

// note remembers the request that begins at the next block.
func (s *sendQueue) note(number uint32, id uint64, op verbs.WCOpcode) {
	s.sent[s.pi&(s.blocks-1)] = sent{id, number, op}
}

// complete frees all requests up to the one that begins at a block, and tells of that one.
// It refuses a block at which none begins that is outstanding. data is what the device left
// to us to put into memory.
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

// isIdle reports whether no send is outstanding that asked for a completion. Nobody can
// know of those that follow the last of these: they may have succeeded, without a completion.
func (s *sendQueue) isIdle() bool {
	done, produced := s.completed.Load(), s.produced.Load()
	for i := range s.sent {
		if s.sent[i].number-done < produced-done && be64(s.ring.At(uint32(i))[0][1])>>32&ctrlCompletion != 0 {
			return false
		}
	}
	return true
}

// wholeOf is a request as it stands in the queue. One that goes around the end is copied.
func (q *qp) wholeOf(at, blocks uint32) []byte {
	start := int(at&(q.sq.blocks-1)) * blockSize
	size := int(blocks) * blockSize
	if end := start + size; end <= len(q.sq.memory) {
		return q.sq.memory[start:end]
	}
	n := copy(q.whole[:size], q.sq.memory[start:])
	copy(q.whole[n:size], q.sq.memory)
	return q.whole[:size]
}
