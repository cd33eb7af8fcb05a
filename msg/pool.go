package msg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Pool holds the resources that many connections of a device share: a protection
// domain, and pairs of completion queues. Each pair takes a descriptor, and a goroutine
// while no call waits. A connection of a pool takes no descriptor and no goroutine. The
// methods of Pool may be called concurrently.
//
// All connections of a pool share a protection domain. A peer that guesses a key can
// access any region of the pool that grants rights to peers.
type Pool struct {
	dev     *uverbs.Device
	pd      *uverbs.PD
	pairs   []*cqPair
	heap    heap
	stopped chan struct{} // closed by the first Close, and when all queues have failed
	once    sync.Once
	ready   readyList
	budget  budget

	mu       sync.RWMutex // guards the fields below
	conns    map[uint32]*Conn
	gone     sync.Cond // a connection has left conns or its state has changed
	last     uint32    // the last number of a connection; none is used twice
	closed   bool
	freed    bool
	left     rdmacm.ConnStats // of the connections that have been closed
	failures int              // pairs whose queues can't be used any more
	cause    error            // of the first of these
}

// cqPair is a pair of completion queues with their poller.
type cqPair struct {
	poller poller
	room   entries // entries that are not assigned to a connection; guarded by the pool's lock
}

// entries is a number of entries in each of two queues.
type entries struct{ sends, receives int }

// entries returns how many completions a connection may cause at a time.
func (s *shape) entries() entries { return entries{s.sends(), s.receives()} }

func (e entries) times(n int) entries { return entries{n * e.sends, n * e.receives} }

func (e entries) plus(o entries) entries { return entries{e.sends + o.sends, e.receives + o.receives} }

func (e entries) holds(o entries) bool { return o.sends <= e.sends && o.receives <= e.receives }

// NewPool creates a pool on an open device, with room for conns connections with the
// configuration cfg. NewPool ignores cfg.Pool. A connection with larger queues takes
// up more of the room. A full pool refuses connections with [ErrPoolFull].
func NewPool(dev *uverbs.Device, conns int, cfg *Config) (*Pool, error) {
	var alone Config
	if cfg != nil {
		alone = *cfg
		alone.Pool = nil
	}
	s, err := alone.shape()
	if err != nil {
		return nil, failed("make a pool", err)
	}
	if dev == nil {
		return nil, failed("make a pool", fmt.Errorf("the device is nil: %w", os.ErrInvalid))
	}
	if conns < 1 || conns > maxConns {
		return nil, failed("make a pool", fmt.Errorf("%d connections, want 1 to %d: %w", conns, maxConns, syscall.EINVAL))
	}
	p := &Pool{dev: dev, stopped: make(chan struct{}), conns: make(map[uint32]*Conn)}
	p.gone.L = &p.mu
	p.budget.most = s.memory
	p.ready.some = newSignal()
	p.heap.register = func(b []byte, access verbs.Access) (memory, error) { return p.pd.RegMR(b, access) }
	if err := p.make(conns, s.entries()); err != nil {
		return nil, failed("make a pool", errors.Join(err, p.free()))
	}
	for _, s := range p.pairs {
		s.poller.start()
	}
	return p, nil
}

const maxConns = 1 << 20

// make creates as many pairs of completion queues as conns connections need. There may
// be several, because devices limit the length of a queue.
func (p *Pool) make(conns int, each entries) error {
	attr, err := p.dev.QueryDevice()
	if err != nil {
		return err
	}
	if p.pd, err = p.dev.AllocPD(); err != nil {
		return err
	}
	together := conns
	if most := int(attr.MaxCQE) / max(each.sends, each.receives); most > 0 {
		together = min(conns, most)
	}
	for ; conns > 0; conns -= together {
		s := new(cqPair)
		p.pairs = append(p.pairs, s)
		if err := p.createQueues(s, each.times(min(conns, together))); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pool) createQueues(s *cqPair, room entries) (err error) {
	s.room, s.poller.handle = room, p.dispatch
	s.poller.ended = func(err error) { p.fail(s, err) }
	if s.poller.channel, err = p.dev.CreateCompChannel(); err != nil {
		return err
	}
	opts := &uverbs.CQOptions{Channel: s.poller.channel}
	if s.poller.sendCQ, err = p.dev.CreateCQ(room.sends, opts); err != nil {
		return err
	}
	s.poller.recvCQ, err = p.dev.CreateCQ(room.receives, opts)
	return err
}

// fail ends the connections of a pair whose queues can't be used any more. Their
// outstanding work requests never complete.
func (p *Pool) fail(s *cqPair, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if c.cqPair == s {
			c.mu.Lock()
			c.fail(c.link.explain(err))
			c.endAll()
			c.mu.Unlock()
		}
	}
	if errors.Is(err, syscall.EIO) {
		err = fmt.Errorf("%w: %w", rdmacm.ErrDeviceRemoved, err)
	}
	if p.failures++; p.cause == nil {
		p.cause = err
	}
	if p.failures == len(p.pairs) {
		p.once.Do(func() { close(p.stopped) })
	}
}

// whyStopped returns why nothing can be received any more.
func (p *Pool) whyStopped() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return net.ErrClosed
	}
	return p.cause
}

// dispatch finds the connection of a completion by the number in its WRID, which no
// other connection ever has. The number of a queue pair may have been reused.
func (p *Pool) dispatch(wc *verbs.WC) {
	p.mu.RLock()
	c := p.conns[wrid(wc.WRID).conn()]
	p.mu.RUnlock()
	if c != nil {
		c.complete(wc)
	}
}

// admit gives a connection a number and a pair of completion queues.
func (p *Pool) admit(c *Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	for _, s := range p.pairs {
		if n := c.shape.entries(); s.room.holds(n) && p.last < 1<<32-2 {
			s.room = s.room.plus(n.times(-1))
			p.last++
			c.id, c.cqPair, c.poller = p.last, s, &s.poller
			p.conns[c.id] = c
			return nil
		}
	}
	return ErrPoolFull
}

// remove removes a connection whose queue pair has been closed, so that it has no more
// completions.
func (p *Pool) remove(c *Conn) {
	c.onQPClosed()
	stats := c.Stats()
	stats.RegisteredBytes, stats.MessagesHeld = 0, 0
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c.id)
	p.left.Add(&stats)
	p.ready.remove(c)
	c.cqPair.room = c.cqPair.room.plus(c.shape.entries())
	p.gone.Broadcast()
}

// setAbandoned sets whether a connection is being closed that was never returned to
// the program.
func (p *Pool) setAbandoned(c *Conn, abandoned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.abandoned = abandoned
}

// isEmpty waits for the connections that are being closed, and reports whether there
// are no others. The lock is held.
func (p *Pool) isEmpty() bool {
	for len(p.conns) > 0 {
		for _, c := range p.conns {
			if !c.abandoned && !c.inBackground {
				return false
			}
		}
		p.gone.Wait()
	}
	return true
}

// Device returns the device of the pool.
func (p *Pool) Device() *uverbs.Device { return p.dev }

// PD returns the protection domain of the pool's connections.
func (p *Pool) PD() *uverbs.PD { return p.pd }

// Register registers b for all connections of the pool.
func (p *Pool) Register(b []byte, rights Rights) (*Region, error) {
	r, err := register(&p.heap, p.pd, b, rights)
	return r, p.failed("register on", err)
}

// Close frees the pool and the regions registered with it. It returns [ErrInUse] while
// connections are open. It waits for connections that are being closed in the
// background: for at most 10 seconds, unless SetLinger says otherwise. It also waits
// for the connections of a canceled Dial and of a closed Listener, which may take 10
// seconds over iWARP. The device stays open.
//
// A second Close returns an error that matches net.ErrClosed. If something could not be
// freed, another Close tries again.
func (p *Pool) Close() error {
	if p == nil {
		return errNil("close pool")
	}
	p.mu.Lock()
	if p.freed {
		p.mu.Unlock()
		return p.failed("close", net.ErrClosed)
	}
	if !p.isEmpty() {
		p.mu.Unlock()
		return p.failed("close", ErrInUse)
	}
	p.closed = true
	p.mu.Unlock()
	p.once.Do(func() { close(p.stopped) })
	for _, s := range p.pairs {
		s.poller.turn.StopBackground()
	}
	err := p.free()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freed = err == nil
	return p.failed("close", err)
}

func (p *Pool) free() error {
	errs := []error{p.heap.Close()}
	for _, s := range p.pairs {
		errs = append(errs, s.poller.free())
	}
	if p.pd != nil {
		errs = append(errs, ignoreClosed(p.pd.Close()))
	}
	return errors.Join(errs...)
}

// ignoreClosed returns nil for an object that has been closed before.
func ignoreClosed(err error) error {
	if errors.Is(err, verbs.ErrClosed) {
		return nil
	}
	return err
}

// readyList lists the connections of a pool that have a message or their end to
// receive. Each is listed once.
type readyList struct {
	mu          sync.Mutex // guards the fields below, and place of all connections
	first, last *Conn
	some        signal // the list may not be empty
}

// place holds the links of a connection in the list.
type place struct {
	queued     bool
	prev, next *Conn
}

func (r *readyList) push(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.place.queued {
		return
	}
	c.place = place{queued: true, prev: r.last}
	if r.last == nil {
		r.first = c
	} else {
		r.last.place.next = c
	}
	r.last = c
	r.some.raise()
}

func (r *readyList) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first == nil
}

// remove removes c if it is in the list.
func (r *readyList) remove(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlink(c)
}

func (r *readyList) unlink(c *Conn) {
	p := &c.place
	switch {
	case !p.queued:
		return
	case p.prev == nil:
		r.first = p.next
	default:
		p.prev.place.next = p.next
	}
	if p.next == nil {
		r.last = p.prev
	} else {
		p.next.place.prev = p.prev
	}
	*p = place{}
}

// pop removes the first connection and returns it, or nil. If there are more, it wakes
// the next goroutine.
func (r *readyList) pop() *Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.first
	if c == nil {
		return nil
	}
	r.unlink(c)
	if r.first != nil {
		r.some.raise()
	}
	return c
}

// Recv waits for a message of any connection of the pool, and lends it as [Conn.Recv]
// does. It serves the connections that have waited longest first. So a server needs
// no goroutine for an idle connection. Several goroutines may call it. They receive
// the messages of a connection in order. A message is returned either by Recv of the
// pool or by Recv of its connection, whichever is called first.
//
// An error with a connection means that the connection has ended. The error is
// [io.EOF], or the one that its Recv returns. It is returned once, and the program
// should then close the connection. An error without a connection matches the error of
// ctx, [net.ErrClosed] after the pool's Close, or rdmacm.ErrDeviceRemoved if the driver
// has taken the device away, as the drivers of cards do. siw and rxe wait until the program has closed the device. Then
// only connections and listeners end.
func (p *Pool) Recv(ctx context.Context) (*Conn, *Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, p.failed("receive on", err)
		}
		c := p.ready.pop()
		if c == nil {
			_, err := wait.Await(ctx, &p.pairs[0].poller.turn, &p.pairs[0].poller, p.ready.some, p.stopped)
			if err == wait.ErrEnded && p.ready.isEmpty() {
				return nil, nil, p.failed("receive on", p.whyStopped())
			}
			continue
		}
		switch m, err := c.recvReady(); err {
		case errAgain:
		case nil, io.EOF:
			return c, m, err
		default:
			return c, nil, c.failed("receive on", err)
		}
	}
}

// recvReady receives a message, or the end if that has not been returned. A connection
// with more messages goes to the end of the list.
func (c *Conn) recvReady() (*Message, error) {
	m, err := c.tryRecvReady()
	if err != errNeedMemory {
		return m, err
	}
	if err = c.continueFetch(); err != errAgain {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endReported = true
	}
	return nil, err
}

func (c *Conn) tryRecvReady() (*Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endReported || c.ending.isShut {
		return nil, errAgain
	}
	m, err := c.tryRecvLocked()
	switch err {
	case nil:
		c.wakeIfReady()
	case errAgain, errNeedMemory:
	default:
		c.endReported = true
	}
	return m, err
}

// wake wakes the receivers because a message or the end may have arrived. c is held.
func (c *Conn) wake() {
	c.arrived.raise()
	c.wakeIfReady()
}

func (c *Conn) wakeIfReady() {
	if p := c.shape.pool; p != nil && !c.ending.isShut && (c.waiting.len() > 0 || c.ending.peerClosed || isClosed(c.over)) {
		p.ready.push(c)
		p.pairs[0].poller.turn.Wake()
	}
}

// Format implements [fmt.Formatter]. It prints the device, never memory.
func (p *Pool) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "msg pool: %v", p.dev) }
