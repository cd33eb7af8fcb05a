package msg

import (
	"errors"
	"net"
	"sync"

	"github.com/goverbs/goverbs/uverbs"
)

// Pool is what many connections of a device share: a protection domain, completion queues,
// and one goroutine that waits for all of them while no call does. A connection of a pool
// takes no descriptor and no goroutine. Its methods may be called concurrently.
//
// All connections of a pool share a protection domain. A peer that guesses a key reaches any
// region of the pool that grants the right to a peer.
type Pool struct {
	dev  *uverbs.Device
	pd   *uverbs.PD
	heap heap
	pump pump

	mu     sync.RWMutex // guards what follows
	conns  map[uint32]*Conn
	last   uint32  // number of a connection; none is used twice
	room   entries // that no connection has been promised
	closed bool
}

// NewPool makes a pool on an open device with room for conns connections such as cfg
// describes, whose Pool is not used. A connection with larger queues takes more of the room.
// A pool that is full refuses connections: [ErrPoolFull].
func NewPool(dev *uverbs.Device, conns int, cfg *Config) (*Pool, error) {
	s, err := cfg.shape()
	if err != nil {
		return nil, failed("make a pool", err)
	}
	p := &Pool{dev: dev, conns: make(map[uint32]*Conn)}
	p.heap.register = func(b []byte, access uverbs.Access) (memory, error) { return p.pd.RegMR(b, access) }
	if err := p.make(conns, &s); err != nil {
		return nil, failed("make a pool", errors.Join(err, p.free()))
	}
	p.pump.take, p.pump.ended = p.dispatch, p.fail
	p.pump.start()
	return p, nil
}

func (p *Pool) make(conns int, s *shape) (err error) {
	if p.pd, err = p.dev.AllocPD(); err != nil {
		return err
	}
	if p.pump.channel, err = p.dev.CreateCompChannel(); err != nil {
		return err
	}
	p.room = entries{conns * s.sends(), conns * s.receives()}
	opts := &uverbs.CQOptions{Channel: p.pump.channel}
	if p.pump.sendCQ, err = p.dev.CreateCQ(p.room.sends, opts); err != nil {
		return err
	}
	p.pump.recvCQ, err = p.dev.CreateCQ(p.room.receives, opts)
	return err
}

// entries are completions in the two queues.
type entries struct{ sends, receives int }

// fail ends all connections, because the queues are of no more use.
func (p *Pool) fail(err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, c := range p.conns {
		c.mu.Lock()
		c.fail(err)
		c.mu.Unlock()
	}
}

// dispatch finds the connection of a completion by the number in its WRID, which no other
// connection ever has. A queue pair's number may be another's by now.
func (p *Pool) dispatch(wc *uverbs.WC) {
	p.mu.RLock()
	c := p.conns[wrid(wc.WRID).conn()]
	p.mu.RUnlock()
	if c != nil {
		c.complete(wc)
	}
}

// admit makes room for a connection.
func (p *Pool) admit(s *shape) (id uint32, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return 0, net.ErrClosed
	case s.sends() > p.room.sends || s.receives() > p.room.receives || p.last == 1<<32-2:
		return 0, ErrPoolFull
	}
	p.room.sends -= s.sends()
	p.room.receives -= s.receives()
	p.last++
	return p.last, nil
}

func (p *Pool) add(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c.id] = c
}

// remove is for a connection whose queue pair has gone, and with it its completions.
func (p *Pool) remove(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c.id)
	p.room.sends += c.shape.sends()
	p.room.receives += c.shape.receives()
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
// is refused with [ErrInUse]. The device stays open.
func (p *Pool) Close() error {
	p.mu.Lock()
	if n := len(p.conns); n > 0 {
		p.mu.Unlock()
		return &Error{"close pool", ErrInUse}
	}
	p.closed = true
	p.mu.Unlock()
	p.pump.stop()
	return failed("close pool", p.free())
}

func (p *Pool) free() error {
	errs := []error{p.heap.Close()}
	for _, cq := range []*uverbs.CQ{p.pump.sendCQ, p.pump.recvCQ} {
		if cq != nil {
			errs = append(errs, cq.Close())
		}
	}
	if p.pump.channel != nil {
		errs = append(errs, p.pump.channel.Close())
	}
	if p.pd != nil {
		errs = append(errs, p.pd.Close())
	}
	return notClosed(errors.Join(errs...))
}

// notClosed has a second Close do nothing.
func notClosed(err error) error {
	if errors.Is(err, uverbs.ErrClosed) {
		return nil
	}
	return err
}
