package msg

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// heap holds all registered memory of a connection or of a pool, and is closed after
// everything else. The memory itself is allocated by Go, so a slice that the program
// keeps remains valid.
type heap struct {
	register func([]byte, verbs.Access) (memory, error)
	account  *account // of large buffers

	adding sync.WaitGroup // registrations in progress

	mu     sync.Mutex     // guards the fields below
	all    map[memory]int // with their lengths
	closed bool
}

// add registers b.
func (h *heap) add(b []byte, access verbs.Access) (memory, error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, net.ErrClosed
	}
	h.adding.Add(1)
	h.mu.Unlock()
	defer h.adding.Done()
	m, err := h.register(b, access)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[memory]int)
	}
	h.all[m] = len(b)
	return m, nil
}

// remove ends a registration.
func (h *heap) remove(m memory) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.all[m]; !ok {
		return net.ErrClosed
	}
	return h.end(m)
}

// end ends a registration. If that fails, Close tries again.
func (h *heap) end(m memory) error {
	err := m.Close()
	if err == nil {
		delete(h.all, m)
	}
	return err
}

// large allocates a buffer that the peer may read.
func (h *heap) large(size int) (*Buffer, error) {
	b := &Buffer{slot: noSlot, heap: h, all: make([]byte, size)}
	var err error
	b.mem, err = h.add(b.all, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
	return b, err
}

// toSend returns a buffer for sending a large message of n bytes.
func (h *heap) toSend(n int) (*Buffer, error) {
	size := 1 << classOf(n)
	if b := h.account.toSend(size); b != nil {
		return b, nil
	}
	return h.large(size)
}

// put takes a large buffer back, and keeps it for reuse if there is room.
func (h *heap) put(b *Buffer) {
	if evicted := h.account.put(b); evicted != nil {
		_ = h.remove(evicted.mem) // if it fails, Close tries again
	}
}

// Close ends all registrations. It waits for those that are in progress, because they
// would keep the protection domain in use.
func (h *heap) Close() error {
	if h.account != nil {
		h.account.close()
	}
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.adding.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for m := range h.all {
		errs = append(errs, h.end(m))
	}
	return errors.Join(errs...)
}

// budget limits the memory of received large messages, of a connection or of all
// connections of a pool. The whole length of a message is reserved before its first
// byte is read, so no two messages ever wait for each other.
type budget struct {
	most uint64

	mu             sync.Mutex            // guards the fields below, and the accounts
	used           uint64                // bytes that are reserved or in free buffers
	oldest, newest *Buffer               // list of the free buffers of all connections
	queue          []*account            // those that wait for room; while there are any, there is no free buffer
	holders        map[*account]struct{} // those that have reserved memory
	watching       bool                  // a call of look is scheduled
}

// account is a connection's share of a budget.
type account struct {
	budget *budget
	wake   func() // called when wants has been reserved; it must not block
	hurry  func() // called, without the budget's lock, while others wait for memory

	reserved uint64
	free     []*Buffer // for reuse, the oldest first
	wants    uint64    // bytes that the connection waits for, or 0
	granted  bool      // wants has been reserved
	closed   bool
}

// keep is the maximum number of free buffers of a connection.
const keep = 4

// toSend takes a free buffer of the given size. It returns nil if all are in use. The
// buffer no longer counts towards the budget, because the program decides how much it
// sends.
func (a *account) toSend(size int) *Buffer {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	b := a.find(size)
	if b != nil {
		a.take(b)
	}
	return b
}

// toReceive reserves room for a message, and takes a free buffer of that size if there
// is one. If ok is false, there is no room. wake is called as soon as there is, and
// the caller then calls toReceive again. The caller ends the registrations of the
// evicted buffers.
func (a *account) toReceive(size int) (b *Buffer, evicted []*Buffer, ok bool) {
	g, n := a.budget, uint64(size)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case a.granted:
		a.granted, a.wants = false, 0
		return nil, nil, true
	case a.closed || a.wants > 0:
		return nil, nil, false
	}
	if b = a.find(size); b != nil {
		a.take(b)
	}
	for g.oldest != nil && g.used+n > g.most {
		evicted = append(evicted, g.oldest)
		g.oldest.heap.account.take(g.oldest)
	}
	if b == nil && (len(g.queue) > 0 || g.used+n > g.most) {
		a.wants, g.queue = n, append(g.queue, a)
		g.watch()
		return nil, evicted, false
	}
	a.reserve(n)
	return b, evicted, true
}

func (a *account) reserve(n uint64) {
	a.reserved += n
	a.budget.used += n
	if a.budget.holders == nil {
		a.budget.holders = make(map[*account]struct{})
	}
	a.budget.holders[a] = struct{}{}
}

// giveUp releases the reservation of a message that is not received after all.
func (a *account) giveUp(size int) {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.unreserve(uint64(size))
	a.budget.grant()
}

func (a *account) unreserve(n uint64) {
	if !a.closed {
		a.reserved -= n
		a.budget.used -= n
		if a.reserved == 0 {
			delete(a.budget.holders, a)
		}
	}
}

// watch schedules a call of look. The lock is held.
func (g *budget) watch() {
	if !g.watching {
		g.watching = true
		time.AfterFunc(crowdLimit/4, g.look)
	}
}

// look calls hurry of all connections that hold memory. It repeats that as long as other
// connections wait.
func (g *budget) look() {
	g.mu.Lock()
	var hurry []func()
	if g.watching = false; len(g.queue) > 0 {
		for a := range g.holders {
			if a.hurry != nil {
				hurry = append(hurry, a.hurry)
			}
		}
		g.watch()
	}
	g.mu.Unlock()
	for _, f := range hurry {
		f()
	}
}

// put takes b back, and keeps it for reuse if there is room. If evicted is not nil,
// the caller ends its registration.
func (a *account) put(b *Buffer) (evicted *Buffer) {
	g, n := a.budget, uint64(len(b.all))
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.received {
		b.received = false
		a.unreserve(n)
	}
	if a.closed || len(g.queue) > 0 || g.used+n > g.most {
		g.grant()
		return b
	}
	if len(a.free) == keep {
		evicted = a.free[0]
		a.take(evicted)
	}
	g.used += n
	a.free = append(a.free, b)
	if b.older, g.newest = g.newest, b; b.older == nil {
		g.oldest = b
	} else {
		b.older.newer = b
	}
	return evicted
}

// find returns a free buffer of the given size, or nil.
func (a *account) find(size int) *Buffer {
	for _, b := range a.free {
		if len(b.all) == size {
			return b
		}
	}
	return nil
}

// take removes a free buffer from the lists.
func (a *account) take(b *Buffer) {
	g := a.budget
	if b.older == nil {
		g.oldest = b.newer
	} else {
		b.older.newer = b.newer
	}
	if b.newer == nil {
		g.newest = b.older
	} else {
		b.newer.older = b.older
	}
	b.older, b.newer = nil, nil
	i := slices.Index(a.free, b)
	a.free = slices.Delete(a.free, i, i+1)
	g.used -= uint64(len(b.all))
}

// grant reserves room for the first connections in the queue, as far as there is
// room.
func (g *budget) grant() {
	for len(g.queue) > 0 && g.used+g.queue[0].wants <= g.most {
		a := g.queue[0]
		g.queue = g.queue[1:]
		a.granted = true
		a.reserve(a.wants)
		a.wake()
	}
}

// close releases everything that the connection has reserved.
func (a *account) close() {
	g := a.budget
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.closed {
		return
	}
	for len(a.free) > 0 {
		a.take(a.free[0])
	}
	a.unreserve(a.reserved)
	a.closed = true
	g.queue = slices.DeleteFunc(g.queue, func(o *account) bool { return o == a })
	g.grant()
}
