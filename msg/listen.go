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

// Listen listens at an address that rdmacm.Listen takes.
func Listen(address string, cfg *Config) (*Listener, error) {
	s, err := cfg.shape()
	if err != nil {
		return nil, failed("listen", err)
	}
	l := &Listener{pending: pendingConns{shape: s, accepts: true}}
	if l.cm, err = rdmacm.Listen(address, l.pending.config()); err != nil {
		return nil, failed("listen", err)
	}
	return l, nil
}

// Accept waits for a connection. An error that matches net.ErrClosed means that the
// listener has ended. Any other error but that of ctx concerns one peer, such as one that
// speaks another protocol ([ErrVersion]) or finds the pool full ([ErrPoolFull]); it is
// temporary ([Error.Temporary]), and the listener goes on. A peer that says nothing within 10
// seconds of Accept loses its connection.
//
// A connection in a pool may have been closed already: [Pool.Recv] tells of its messages, and of
// its end, as soon as they are there.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		cm, err := l.cm.Accept(ctx)
		if err != nil {
			l.pending.sweep()
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
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

func (l *Listener) welcome(c *Conn) {
	if c.shape.pool == nil {
		c.pollAlone()
	}
	c.startWatch(firstFrameLimit)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.failing { // so early that there was no connection to end
		go c.link.disconnect()
	}
}

// Addr is the address listened on, as rdmacm.Listener.Addr tells it.
func (l *Listener) Addr() netip.AddrPort { return l.cm.Addr() }

// Close stops listening. Connections that were accepted stay. A second Close returns an
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
	return failed("close listener", err)
}
