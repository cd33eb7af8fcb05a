package msg

import (
	"maps"
	"net"
	"sync"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// births are connections that are being made and that no program has yet. There may be
// several at a time: a Listener lets peers in side by side, and Dial may try two addresses
// at once.
type births struct {
	shape   shape
	accepts bool

	mu    sync.Mutex
	made  map[*rdmacm.Conn]*Conn
	ended bool // none is made any more
}

// retryCount is how often an unacknowledged packet is sent again. rxe takes 7, the most,
// for without end: a network that is gone would end no connection.
const retryCount = 6

// ackTimeout is how long a packet may stay unacknowledged before it is sent again. With
// retryCount, a connection survives a network that is gone for seven seconds.
const ackTimeout = time.Second

// config is the connection manager's part.
func (b *births) config() *rdmacm.Config {
	s := &b.shape
	cfg := &rdmacm.Config{
		PrivateData: s.hello().bytes(), PrepareQP: b.begin, Prepare: b.prepare,
		RetryCount: retryCount,
		QP: uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: uint32(s.sends()), MaxRecvWR: uint32(s.receives()),
			MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: frameSize + rtsSize}},
	}
	if s.pool != nil {
		cfg.PD = s.pool.pd
	}
	return cfg
}

// begin makes the Conn, before its queue pair. It goes when cm is closed. The side that
// accepts knows the peer's greeting, and rejects the peer with an error.
func (b *births) begin(cm *rdmacm.Conn, o *uverbs.QPOptions) error {
	var greeting hello
	var err error
	if b.accepts {
		if greeting, err = parseHello(cm.PrivateData()); err != nil {
			return err
		}
	}
	c := newConn(rdmaLink{cm}, 1, b.shape, cm.PD())
	c.cm, c.peer = cm, greeting
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended { // a second address of Dial's may begin behind the first one's end
		return net.ErrClosed
	}
	if b.made == nil {
		b.made = make(map[*rdmacm.Conn]*Conn)
	}
	// What is owned first is closed last: as long as the pool has the connection, end
	// has to find it.
	cm.Own(closer(func() error { b.closed(c); return nil }))
	if p := b.shape.pool; p != nil {
		if err := p.admit(c); err != nil {
			return err
		}
		cm.Own(closer(func() error { p.remove(c); return nil }))
		o.SendCQ, o.RecvCQ = c.pump.sendCQ, c.pump.recvCQ
	}
	cm.Own(c.heap)
	b.made[cm] = c
	return nil
}

// prepare is for when there is a queue pair, which is not connected yet.
func (b *births) prepare(cm *rdmacm.Conn) error {
	b.mu.Lock()
	c := b.made[cm]
	b.mu.Unlock()
	if b.accepts {
		c.open(c.peer, false)
	}
	return c.prepare()
}

type closer func() error

func (f closer) Close() error { return f() }

// closed forgets a connection that nobody has. A pool hands out a connection's messages and its
// end before Accept returns it, so the program may have closed it by then: Accept still finds it.
func (b *births) closed(c *Conn) {
	if !c.isShut() {
		b.remove(c.cm)
	}
}

// sweep forgets the connections that the program has closed. It is called when one of them may
// have failed to be accepted.
func (b *births) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.made, func(_ *rdmacm.Conn, c *Conn) bool { return c.isShut() })
}

func (b *births) remove(cm *rdmacm.Conn) *Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.made[cm]
	delete(b.made, cm)
	return c
}

// take is for one that the program gets. It returns nil for one that sweep has forgotten.
func (b *births) take(cm *rdmacm.Conn) *Conn {
	c := b.remove(cm)
	if c != nil && c.shape.pool != nil {
		c.shape.pool.leaves(c, false)
	}
	return c
}

// end is for when nobody will take those that are left. They are being closed.
func (b *births) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, c := range b.made {
		if p := c.shape.pool; p != nil {
			p.leaves(c, true)
		}
	}
}
