package msg

import (
	"errors"
	"math/bits"
	"net"
	"sync"

	"github.com/goverbs/goverbs/uverbs"
)

// heap has all the memory of a connection, or of a pool, that is registered. It closes
// last what is left. The memory itself belongs to Go's collector, so a slice that
// somebody kept stays good.
type heap struct {
	register func([]byte, uverbs.Access) (memory, error)

	mu     sync.Mutex // guards what follows
	all    map[memory]struct{}
	free   map[int][]*Buffer // by class, to be used again
	closed bool
}

const keep = 4 // free buffers of a class

// add registers b.
func (h *heap) add(b []byte, access uverbs.Access) (memory, error) {
	m, err := h.register(b, access)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errors.Join(net.ErrClosed, m.Close())
	}
	if h.all == nil {
		h.all = make(map[memory]struct{})
	}
	h.all[m] = struct{}{}
	return m, nil
}

// remove ends a registration.
func (h *heap) remove(m memory) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.all[m]; !ok {
		return net.ErrClosed
	}
	delete(h.all, m)
	return m.Close()
}

// large takes a buffer of at least n bytes, whose memory the peer may read.
func (h *heap) large(n int) (*Buffer, error) {
	class := bits.Len(uint(n - 1))
	h.mu.Lock()
	if list := h.free[class]; len(list) > 0 {
		b := list[len(list)-1]
		h.free[class] = list[:len(list)-1]
		h.mu.Unlock()
		return b, nil
	}
	h.mu.Unlock()
	b := &Buffer{slot: noSlot, class: class, all: make([]byte, 1<<class)}
	var err error
	b.mem, err = h.add(b.all, uverbs.AccessLocalWrite|uverbs.AccessRemoteRead)
	return b, err
}

// put takes a large buffer back.
func (h *heap) put(b *Buffer) {
	h.mu.Lock()
	kept := !h.closed && len(h.free[b.class]) < keep
	if kept {
		if h.free == nil {
			h.free = make(map[int][]*Buffer)
		}
		h.free[b.class] = append(h.free[b.class], b)
	}
	h.mu.Unlock()
	if !kept {
		_ = h.remove(b.mem) // close does what this could not
	}
}

// Close ends all registrations.
func (h *heap) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	var errs []error
	for m := range h.all {
		if err := m.Close(); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(h.all, m)
	}
	return errors.Join(errs...)
}
