package fakeverbs

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/mmap"
)

// own is memory of this process itself, where the race detector watches both sides of a
// queue. When all have let go of it, another queue of that length has it: else most of the time
// to connect is the garbage collector's.
type own struct {
	bytes   []byte
	holders atomic.Int32
	spare   *spare
}

// spare has memory of one length that nobody holds.
type spare struct {
	mu    sync.Mutex
	queue []*own
	rest  int // how many are kept for a while
}

const (
	mostPages = 32      // of memory that is used again
	mostSpare = 32      // pieces of one length that are kept
	mostBytes = 1 << 20 // of them together
)

// Memory of the kernel's is used again at once, because the kernel's side knows who holds it.
// Memory of user space is left alone for a while: a device that writes to a queue too late
// shall find that it is gone.
var kernels, users = newSpares(0), newSpares(mostSpare / 2)

func newSpares(rest int) *[mostPages + 1]spare {
	all := new([mostPages + 1]spare)
	for i := range all {
		all[i].rest = rest
	}
	return all
}

// newOwn is memory of zeros.
func newOwn(from *[mostPages + 1]spare, size int) *own {
	pages := size / PageSize
	if pages > mostPages {
		return &own{bytes: make([]byte, size)}
	}
	s := &from[pages]
	if o := s.take(); o != nil {
		clear(o.bytes)
		return o
	}
	return &own{bytes: make([]byte, size), spare: s}
}

// region views the first bytes, until it is closed.
func (o *own) region(length int) (*mmap.Region, error) {
	o.holders.Add(1)
	return mmap.WrapUntil(o.bytes[:length], o.release)
}

func (o *own) release() {
	if o.holders.Add(-1) == 0 && o.spare != nil {
		o.spare.put(o)
	}
}

// take returns what was put there first, or nil.
func (s *spare) take() *own {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) <= s.rest {
		return nil
	}
	o := s.queue[0]
	s.queue = slices.Delete(s.queue, 0, 1)
	return o
}

func (s *spare) put(o *own) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.queue) + 1; n <= mostSpare && n*len(o.bytes) <= mostBytes {
		s.queue = append(s.queue, o)
	}
}
