package msg

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/goverbs/goverbs/rdmacm"
)

// Listener accepts connections. Its methods may be called concurrently.
type Listener struct {
	cm      *rdmacm.Listener
	pending pendingConns
	closed  atomic.Bool
}

// ListenConfig listens with options. The zero value is valid. [Listen] uses it.
type ListenConfig struct {
	// Config describes the connections that [Listener.Accept] returns.
	Config

	// Resolver looks up names. Nil stands for net.DefaultResolver.
	Resolver *net.Resolver

	// Backlog is how many connections may be set up at a time, or wait for Accept. Zero
	// stands for 128.
	Backlog int
}

// Listen listens on an address with the defaults of [ListenConfig]. See [ListenConfig.Listen].
func Listen(address string) (*Listener, error) {
	return new(ListenConfig).Listen(context.Background(), address)
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
	if l.cm, err = cm.Listen(ctx, address); err != nil {
		return nil, failed("listen", err)
	}
	return l, nil
}

// Accept waits for a connection. After an error that matches net.ErrClosed the listener
// is closed. An error that is temporary ([Error.Temporary]) concerns one peer, such as
// one that speaks another protocol ([ErrVersion]) or finds the pool full
// ([ErrPoolFull]), and the listener continues to accept others. Any other error is
// caused by ctx. If a peer sends nothing within 10 seconds of Accept, its connection is
// closed.
//
// With a pool, the program may have closed the connection already, because [Pool.Recv]
// may return its messages and its end before Accept returns the connection.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		cm, err := l.cm.Accept(ctx)
		if err != nil {
			l.pending.sweep()
			if byContext := ctx.Err() != nil && errors.Is(err, ctx.Err()); !byContext && !errors.Is(err, net.ErrClosed) {
				err = ofPeer{err}
			}
			return nil, failed("accept", err)
		}
		if c := l.pending.take(cm); c != nil {
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

// Addr returns the address that the listener listens on, like rdmacm.Listener.Addr.
func (l *Listener) Addr() netip.AddrPort { return l.cm.Addr() }

// Close stops listening. Accepted connections stay open. A second Close returns an
// error that matches net.ErrClosed.
func (l *Listener) Close() error {
	if l == nil {
		return errNil("close listener")
	}
	again := l.closed.Swap(true)
	err := l.cm.Close()
	l.pending.end()
	if again && err == nil {
		err = net.ErrClosed
	}
	return failedOn("listener on "+l.Addr().String(), "close", err)
}
