package msg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// pendingConns holds the connections that are being set up and have not been returned
// by Dial or Accept. There may be several at a time: a Listener sets up connections
// concurrently, and Dial may try two addresses at once.
type pendingConns struct {
	shape   shape
	accepts bool

	mu    sync.Mutex
	made  map[conn.Conn]*Conn
	ended bool // no more connections are set up
}

// config returns the configuration for the connection manager.
func (b *pendingConns) config() *rdmacm.Config {
	cfg := &rdmacm.Config{
		PrivateData: b.shape.hello().bytes(), TransportOptions: b.shape.transport, QP: b.qpOptions(),
		PrepareQP: func(cm *rdmacm.Conn, o *uverbs.QPOptions) error { return b.begin(cm, o) },
		Prepare:   func(cm *rdmacm.Conn) error { return b.prepare(cm) },
	}
	if p := b.shape.pool; p != nil {
		cfg.PD = p.pd
	}
	return cfg
}

// configOver returns the configuration for connections over streams. over has the caller's part, and may be nil with a
// pool.
func (b *pendingConns) configOver(over *oob.Config) *oob.Config {
	var cfg oob.Config
	if over != nil {
		cfg = *over
	}
	cfg.PrivateData, cfg.TransportOptions, cfg.QP, cfg.RecvCQEntries = b.shape.hello().bytes(), b.shape.transport, b.qpOptions(), 0
	cfg.PrepareQP = func(c *oob.Conn, o *uverbs.QPOptions) error { return b.begin(c, o) }
	cfg.Prepare = func(c *oob.Conn) error { return b.prepare(c) }
	if p := b.shape.pool; p != nil {
		cfg.PD = p.pd
	}
	return &cfg
}

func (b *pendingConns) qpOptions() uverbs.QPOptions {
	return uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: uint32(b.shape.sends()), MaxRecvWR: uint32(b.shape.receives()),
		MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: frameSize + rtsSize}}
}

// begin creates the Conn before its queue pair. The Conn is closed together with base.
// On the accepting side, begin parses the peer's greeting, and an error rejects the
// peer.
func (b *pendingConns) begin(base conn.Conn, o *uverbs.QPOptions) error {
	var greeting hello
	var err error
	if b.accepts {
		if greeting, err = parseHello(base.PrivateData()); err != nil {
			return err
		}
	}
	c := newConn(rdmaLink{base}, 1, b.shape, base.PD())
	c.peer = greeting
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended { // Dial may begin a second address after the first one has ended
		return net.ErrClosed
	}
	if b.made == nil {
		b.made = make(map[conn.Conn]*Conn)
	}
	// Resources are closed in reverse order, so this one is closed after the pool has
	// removed the connection. Until then, end must find it.
	base.Own(closer(func() error { b.closed(c); return nil }))
	if p := b.shape.pool; p != nil {
		if err := p.admit(c); err != nil {
			return b.full(err)
		}
		base.Own(closer(func() error { p.remove(c); return nil }))
		o.SendCQ, o.RecvCQ = c.poller.sendCQ, c.poller.recvCQ
	}
	base.Own(c.heap)
	b.made[base] = c
	return nil
}

// full makes a pool without room reject a peer as busy. A dial into such a pool is not repeated.
func (b *pendingConns) full(err error) error {
	if b.accepts && err == ErrPoolFull {
		return fmt.Errorf("%w: %w", rdmacm.ErrBusy, err)
	}
	return err
}

// prepare is called when the queue pair has been created and is not connected yet.
func (b *pendingConns) prepare(base conn.Conn) error {
	b.mu.Lock()
	c := b.made[base]
	b.mu.Unlock()
	if b.accepts {
		c.open(c.peer, false)
	}
	return c.prepare()
}

type closer func() error

func (f closer) Close() error { return f() }

// closed removes a connection that has not been returned. A pool delivers a
// connection's messages and its end before Accept returns it, so the program may have
// closed it by then. Such a connection stays, and Accept returns it.
func (b *pendingConns) closed(c *Conn) {
	if !c.isShut() {
		b.remove(c.base())
	}
}

// sweep removes the connections that the program has closed. It is called when
// accepting one of them may have failed.
func (b *pendingConns) sweep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.made, func(_ conn.Conn, c *Conn) bool { return c.isShut() })
}

func (b *pendingConns) remove(base conn.Conn) *Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.made[base]
	delete(b.made, base)
	return c
}

// take removes a connection and returns it to Dial or Accept. It returns nil for a
// connection that sweep has removed.
func (b *pendingConns) take(base conn.Conn) *Conn {
	c := b.remove(base)
	if c != nil && c.shape.pool != nil {
		c.shape.pool.setAbandoned(c, false)
	}
	return c
}

// end marks the remaining connections as abandoned, because none will be returned any
// more. They are being closed.
func (b *pendingConns) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, c := range b.made {
		if p := c.shape.pool; p != nil {
			p.setAbandoned(c, true)
		}
	}
}

const (
	proveInterval = 2 * time.Millisecond
	proveTimeout  = 10 * time.Second
)

// prove works around a race in the siw driver: the accepting side may overlook the
// first message until another one follows. rdmacm.Dial does the same if it may poll
// the send CQ. The completion of an empty READ proves that the peer has seen the
// message. Empty WRITEs wake the peer's kernel until then.
func (c *Conn) prove(caller context.Context) error {
	read := make(chan error, 1)
	ctx, cancel := context.WithTimeoutCause(caller, proveTimeout, syscall.ETIMEDOUT)
	defer cancel()
	go func() { read <- c.emptyOp(ctx, verbs.OpRDMARead) }()
	kick := time.NewTicker(proveInterval)
	defer kick.Stop()
	for {
		select {
		case err := <-read:
			if err != nil && caller.Err() != nil {
				return caller.Err()
			}
			if errors.Is(err, ErrPeerClosed) { // the peer has sent a CLOSE, so it has seen the message
				return nil
			}
			return err
		case <-kick.C:
			short, cancel := context.WithTimeout(ctx, proveInterval)
			_ = c.emptyOp(short, verbs.OpRDMAWrite) // the READ reports the error
			cancel()
		}
	}
}

// emptyOp performs an operation on no bytes, which affects neither memory nor the
// peer's program.
func (c *Conn) emptyOp(ctx context.Context, code verbs.Opcode) error {
	err := c.doWR(ctx, &verbs.SendWR{Opcode: code, SGL: make([]verbs.SGE, 1)})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
