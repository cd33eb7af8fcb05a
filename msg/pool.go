package msg

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Pool is what many connections of a device share: a protection domain, completion queues,
// and for each pair of these a descriptor, and a goroutine while no call waits. A
// connection of a pool takes no descriptor and no goroutine. Its methods may be called
// concurrently.
//
// All connections of a pool share a protection domain. A peer that guesses a key reaches any
// region of the pool that grants the right to a peer.
type Pool struct {
	dev     *uverbs.Device
	pd      *uverbs.PD
	seats   []*seat
	heap    heap
	stopped chan struct{} // closed by the first Close
	once    sync.Once
	ready   readiness
	budget  budget

	mu     sync.RWMutex // guards what follows
	conns  map[uint32]*Conn
	gone   sync.Cond // conns has become smaller
	last   uint32    // number of a connection; none is used twice
	closed bool
	freed  bool
}

// seat is a pair of completion queues, with what takes completions from them.
type seat struct {
	poller poller
	room   entries // that no connection has been promised; guarded by the pool's lock
}

// entries are completions in the two queues.
type entries struct{ sends, receives int }

// entries is how many completions a connection may cause at a time.
func (s *shape) entries() entries { return entries{s.sends(), s.receives()} }

func (e entries) times(n int) entries { return entries{n * e.sends, n * e.receives} }

func (e entries) plus(o entries) entries { return entries{e.sends + o.sends, e.receives + o.receives} }

func (e entries) holds(o entries) bool { return o.sends <= e.sends && o.receives <= e.receives }

// NewPool makes a pool on an open device with room for conns connections such as cfg
// describes, whose Pool is not used. A connection with larger queues takes more of the room.
// A pool that is full refuses connections: [ErrPoolFull].
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
	if conns < 1 || conns > maxConns {
		return nil, failed("make a pool", fmt.Errorf("of %d connections, not 1 to %d: %w", conns, maxConns, syscall.EINVAL))
	}
	p := &Pool{dev: dev, stopped: make(chan struct{}), conns: make(map[uint32]*Conn)}
	p.gone.L = &p.mu
	p.budget.most = s.memory
	p.ready.some = newSignal()
	p.heap.register = func(b []byte, access verbs.Access) (memory, error) { return p.pd.RegMR(b, access) }
	if err := p.make(conns, s.entries()); err != nil {
		return nil, failed("make a pool", errors.Join(err, p.free()))
	}
	for _, s := range p.seats {
		s.poller.start()
	}
	return p, nil
}

const maxConns = 1 << 20

// make makes as many completion queues as conns connections need, because a device has a
// longest one.
func (p *Pool) make(conns int, each entries) error {
	attr, err := p.dev.Query()
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
		s := new(seat)
		p.seats = append(p.seats, s)
		if err := p.furnish(s, each.times(min(conns, together))); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pool) furnish(s *seat, room entries) (err error) {
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

// fail ends the connections of a seat whose queues are of no more use: nobody will hear of
// what is outstanding.
func (p *Pool) fail(s *seat, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, c := range p.conns {
		if c.seat == s {
			c.mu.Lock()
			c.fail(c.link.explain(err))
			c.endAll()
			c.mu.Unlock()
		}
	}
}

// dispatch finds the connection of a completion by the number in its WRID, which no other
// connection ever has. A queue pair's number may be another's by now.
func (p *Pool) dispatch(wc *verbs.WC) {
	p.mu.RLock()
	c := p.conns[wrid(wc.WRID).conn()]
	p.mu.RUnlock()
	if c != nil {
		c.complete(wc)
	}
}

// admit gives a connection a number and a seat.
func (p *Pool) admit(c *Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	for _, s := range p.seats {
		if n := c.shape.entries(); s.room.holds(n) && p.last < 1<<32-2 {
			s.room = s.room.plus(n.times(-1))
			p.last++
			c.id, c.seat, c.poller = p.last, s, &s.poller
			p.conns[c.id] = c
			return nil
		}
	}
	return ErrPoolFull
}

// remove is for a connection whose queue pair has gone, and with it its completions.
func (p *Pool) remove(c *Conn) {
	c.lose()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c.id)
	p.ready.remove(c)
	c.seat.room = c.seat.room.plus(c.shape.entries())
	p.gone.Broadcast()
}

// leaves says whether a connection is being closed that no program has.
func (p *Pool) leaves(c *Conn, leaving bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.leaving = leaving
}

// isEmpty waits for the connections that are leaving, and reports whether there are no
// others. The lock is held.
func (p *Pool) isEmpty() bool {
	for len(p.conns) > 0 {
		for _, c := range p.conns {
			if !c.leaving && !c.parts {
				return false
			}
		}
		p.gone.Wait()
	}
	return true
}

// Device is the device that the pool is on.
func (p *Pool) Device() *uverbs.Device { return p.dev }

// PD is the protection domain of the pool's connections.
func (p *Pool) PD() *uverbs.PD { return p.pd }

// Register registers b for all connections of the pool.
func (p *Pool) Register(b []byte, rights Rights) (*Region, error) {
	return register(&p.heap, p.pd, b, rights)
}

// Close frees the pool and the regions registered with it. While connections are open it
// is refused with [ErrInUse]. It waits for those whose Close goes on in the background, as
// long as that takes: 10 seconds at most, unless SetLinger says otherwise. It also waits for
// those of a Dial that its context ended, and of a Listener that was closed, which may take 10
// seconds over iWARP. The device stays open.
//
// A second Close returns an error that matches net.ErrClosed, unless something could not be
// freed, which it tries again.
func (p *Pool) Close() error {
	if p == nil {
		return errNil("close pool")
	}
	p.mu.Lock()
	if p.freed {
		p.mu.Unlock()
		return &Error{"close pool", net.ErrClosed}
	}
	if !p.isEmpty() {
		p.mu.Unlock()
		return &Error{"close pool", ErrInUse}
	}
	p.closed = true
	p.mu.Unlock()
	p.once.Do(func() { close(p.stopped) })
	for _, s := range p.seats {
		s.poller.turn.StopBackground()
	}
	err := p.free()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freed = err == nil
	return failed("close pool", err)
}

func (p *Pool) free() error {
	errs := []error{p.heap.Close()}
	for _, s := range p.seats {
		errs = append(errs, s.poller.free())
	}
	if p.pd != nil {
		errs = append(errs, notClosed(p.pd.Close()))
	}
	return errors.Join(errs...)
}

// notClosed has what was freed before be freed again.
func notClosed(err error) error {
	if errors.Is(err, verbs.ErrClosed) {
		return nil
	}
	return err
}
