package msg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/accept"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
)

// Listener accepts connections. Its methods may be called concurrently.
type Listener struct {
	base    accept.Listener
	pending pendingConns
	closed  atomic.Bool
	open    wait.Group // accepted connections that have not freed everything
}

// ListenConfig listens with options. The zero value is valid. [Listen] uses it.
type ListenConfig struct {
	// Config describes the connections that [Listener.Accept] returns.
	Config

	// Resolver looks up names. Nil stands for net.DefaultResolver.
	Resolver *net.Resolver

	// Backlog is how many dials may wait for Accept. If there are more, the newest one of the
	// address with the most is rejected as busy, and repeats itself: see
	// rdmacm.ListenConfig.Backlog. At most 128 connections are set up at a time. Zero stands
	// for 4096.
	Backlog int
}

// Listen listens on an address with the defaults of [ListenConfig]. See [ListenConfig.Listen].
func Listen(ctx context.Context, address string) (*Listener, error) {
	return new(ListenConfig).Listen(ctx, address)
}

// Listen listens on an address such as "10.0.0.1:7471", or on all addresses of both families
// of all RDMA devices, ":7471". With port 0 the kernel chooses the port. ctx bounds the
// lookup of a name, and does not affect the Listener.
func (lc *ListenConfig) Listen(ctx context.Context, address string) (*Listener, error) {
	s, err := lc.Config.shape()
	if err != nil {
		return nil, failed("listen", err)
	}
	l := &Listener{pending: pendingConns{shape: s, accepts: true}}
	cm := rdmacm.ListenConfig{Config: *l.pending.config(), Resolver: lc.Resolver, Backlog: lc.Backlog}
	if l.base.CM, err = cm.Listen(ctx, address); err != nil {
		return nil, failed("listen", err)
	}
	return l, nil
}

// ListenOver accepts connections over the streams of l, such as TCP or TLS connections. It needs no connection manager.
// Resolver and Backlog have no meaning. over sets the protection domain, the device's port and the GID. With a pool,
// the protection domain is the pool's, and over may be nil. over's Authorize decides who may connect. ListenOver
// ignores over's PrivateData, Prepare, PrepareQP, QP, RecvCQEntries and TransportOptions. RetryCount must not be
// negative. The Listener owns l. See [oob.Listen].
func (lc *ListenConfig) ListenOver(l net.Listener, over *oob.Config) (*Listener, error) {
	s, err := lc.Config.shape()
	if err != nil {
		return nil, failed("listen", errors.Join(err, l.Close()))
	}
	made := &Listener{pending: pendingConns{shape: s, accepts: true}}
	if made.base.Over, err = oob.Listen(l, made.pending.configOver(over)); err != nil {
		return nil, failed("listen", err)
	}
	return made, nil
}

// Accept waits for a connection. After an error that matches net.ErrClosed the listener
// is closed. An error that is temporary ([verbs.Error.Temporary]) concerns one peer, such as
// one that speaks another protocol ([ErrVersion]) or finds the pool full
// ([ErrPoolFull]), and the listener continues to accept others. Any other error is
// caused by ctx. If a peer sends nothing within 10 seconds of Accept, its connection is
// closed.
//
// With a pool, the program may have closed the connection already, because [Pool.Recv]
// may return its messages and its end before Accept returns the connection.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		base, err := l.base.Accept(ctx)
		if err != nil {
			l.pending.sweep()
			return nil, failed("accept", err)
		}
		if c := l.pending.take(base); c != nil {
			c.countIn(&l.open)
			l.welcome(c)
			return c, nil
		}
	}
}

// welcome starts the protocol on an accepted connection.
func (l *Listener) welcome(c *Conn) {
	if c.shape.pool == nil {
		c.pollAlone()
	}
	c.startWatch(firstFrameLimit)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.failing { // it failed before it could be disconnected
		go c.link.disconnect()
	}
}

// Addr returns the address that the listener listens on, like rdmacm.Listener.Addr. For streams it is the address of
// the net.Listener if that has an IP address, and invalid otherwise.
func (l *Listener) Addr() netip.AddrPort { return l.base.Addr() }

// Close stops listening. Accepted connections stay open. A second Close returns an
// error that matches net.ErrClosed.
func (l *Listener) Close() error {
	if l == nil {
		return errNil("close listener")
	}
	again := l.closed.Swap(true)
	err := l.base.Close()
	l.pending.end()
	if again && err == nil {
		err = net.ErrClosed
	}
	return failedOn(l.Addr().String(), "close listener", err)
}

// Shutdown stops listening. It waits until all connections that Accept returned are closed, their messages are
// delivered, and their objects are freed. It does not close the connections. If ctx ends first, Shutdown returns an
// error that matches ctx.Err(). It may be called after Close.
func (l *Listener) Shutdown(ctx context.Context) error {
	if l == nil {
		return errNil("shut down listener")
	}
	err := l.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if canceled := l.open.Wait(ctx); canceled != nil {
		err = errors.Join(err, failedOn(l.Addr().String(), "shut down listener", canceled))
	}
	return err
}

// countIn counts the connection in a group until it has freed everything.
func (c *Conn) countIn(g *wait.Group) {
	c.freeing.Lock()
	defer c.freeing.Unlock()
	if !isClosed(c.closed) { // with a pool, it may have been closed already
		g.Add()
		c.closing.group = g
	}
}

// Format implements [fmt.Formatter]. It prints the address.
func (l *Listener) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "msg listener at %v", l.Addr()) }

// Stats returns the Listener's counts. A Listener over streams has none.
func (l *Listener) Stats() rdmacm.ListenerStats { return l.base.Stats() }
