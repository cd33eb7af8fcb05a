// Package netconn is the net.Conn, net.Listener and dialer of packages rsocket and valkeyrdma, which add a Protocol
// each.
package netconn

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/accept"
	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// Listener is a listener for a package's connections. A connection exists from the connection request on.
type Listener[C net.Conn] struct {
	Network   string
	Violation error // of peers that violate the protocol
	// Prepare creates the connection for a connection request, whose queue pair exists. add must be called with it
	// before anything else can fail.
	Prepare func(rc conn.Conn, add func(C)) error
	// Begin starts the protocol on an established connection.
	Begin func(conn.Conn, C) error
	// Conn returns the Conn of a connection.
	Conn func(C) *Conn

	ln accept.Listener

	mu      sync.Mutex // guards the fields below
	pending map[conn.Conn]C
	refused bool   // Accept has reported that a device lacks something
	failed  uint64 // connections for which Begin failed
	closed  bool

	open wait.Group // accepted connections that have not freed everything
}

// Listen begins to listen. It sets the configuration's Prepare.
func (l *Listener[C]) Listen(ctx context.Context, lc *rdmacm.ListenConfig, address string) (err error) {
	l.pending = make(map[conn.Conn]C)
	lc.Prepare = func(rc *rdmacm.Conn) error { return l.prepare(rc) }
	if l.ln.CM, err = lc.Listen(ctx, address); err != nil {
		return OpError(l.Network, "listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	return nil
}

// ListenOver begins to listen to streams. It sets the configuration's Prepare.
func (l *Listener[C]) ListenOver(streams net.Listener, cfg *oob.Config) (err error) {
	l.pending = make(map[conn.Conn]C)
	cfg.Prepare = func(c *oob.Conn) error { return l.prepare(c) }
	if l.ln.Over, err = oob.Listen(streams, cfg); err != nil {
		return OpError(l.Network, "listen", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	return nil
}

func (l *Listener[C]) prepare(rc conn.Conn) error {
	return l.Prepare(rc, func(c C) { l.add(rc, c) })
}

// add adds the connection that Accept returns for rc.
func (l *Listener[C]) add(rc conn.Conn, c C) {
	l.mu.Lock()
	l.pending[rc] = c
	l.mu.Unlock()
	rc.Own(&entry[C]{l, rc})
}

// entry is the entry of a connection in Listener.pending.
type entry[C net.Conn] struct {
	l  *Listener[C]
	rc conn.Conn
}

// Close removes the entry.
func (e *entry[C]) Close() error {
	e.l.take(e.rc)
	return nil
}

func (l *Listener[C]) take(rc conn.Conn) C {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.pending[rc]
	delete(l.pending, rc)
	return c
}

// Accept returns an established connection, once Begin has started its protocol. If Begin fails, the connection is
// closed. An error matches net.ErrClosed or ctx.Err(), or is a temporary one.
func (l *Listener[C]) Accept(ctx context.Context) (c C, err error) {
	for {
		rc, err := l.ln.Accept(ctx)
		if err == nil {
			mine := l.take(rc)
			l.Conn(mine).freeing = l.open.Done
			if err = l.Begin(rc, mine); err == nil {
				l.open.Add()
				return mine, nil
			}
			_ = rc.Close()
			l.mu.Lock()
			l.failed++
			l.mu.Unlock()
		}
		switch {
		case errors.Is(err, net.ErrClosed), ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return c, l.fail("accept", err)
		case isAny(err, verbs.ErrNotSupported, verbs.ErrNoProvider):
			if l.isFirstRefusal() {
				return c, l.fail("accept", dialer.Temporary{Err: err})
			}
		case !isPeerFault(err, l.Violation):
			return c, l.fail("accept", dialer.Temporary{Err: err})
		}
	}
}

func (l *Listener[C]) fail(op string, err error) error {
	return OpError(l.Network, op, l.ln.Addr(), netip.AddrPort{}, err)
}

// isFirstRefusal reports whether no peer was refused before because of its device. The program has to hear of it
// once; after that, peers that arrive at the device would throttle Accept for those at others.
func (l *Listener[C]) isFirstRefusal() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.refused
	l.refused = true
	return first
}

// Close stops listening.
func (l *Listener[C]) Close() error {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return l.fail("close", net.ErrClosed)
	}
	if err := l.ln.Close(); err != nil {
		return l.fail("close", err)
	}
	return nil
}

// Shutdown stops listening, and waits until all accepted connections are closed and have freed everything.
func (l *Listener[C]) Shutdown(ctx context.Context) error {
	err := l.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if canceled := l.open.Wait(ctx); canceled != nil {
		return errors.Join(err, l.fail("shut down", canceled))
	}
	return err
}

// Addr returns the address listened on. For streams, it is that of the net.Listener.
func (l *Listener[C]) Addr() net.Addr {
	if l.ln.Over != nil {
		return l.ln.Over.Addr()
	}
	return Addr{l.Network, l.ln.Addr()}
}

// isPeerFault reports whether the peer caused an error of a listener's Accept. protocol is the error of peers that
// violate the protocol. A listener hides such errors. Otherwise peers that cause them would keep others out, because
// net/http waits for up to a second after each temporary error.
//
// Errors of the verb modify count, because it fails when the peer leaves or has sent wrong parameters. Errors of other
// verbs don't. All errors of the connection manager's commands and events count, unless this machine lacks resources.
// So do those of a stream.
func isPeerFault(err, protocol error) bool {
	if isAny(err, protocol, rdmacm.ErrDisconnected, syscall.ENOTCONN, syscall.ECONNRESET, oob.ErrMismatch) || errors.As(err, new(conn.Unauthorized)) {
		return true
	}
	var e *verbs.Error
	for within := err; errors.As(within, &e); within = e.Err {
		isVerb := e.Device != "" && e.Op != "accept" // the connection manager's errors name no device
		if isVerb && e.Op != "modify" {
			return false
		}
	}
	return !isAny(err, rdmacm.ErrDeviceRemoved, syscall.EACCES, syscall.EPERM,
		syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSPC)
}

func isAny(err error, causes ...error) bool {
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}

// Stats returns the counts of the connection manager's listener, to which connections are accepted for which Begin
// failed. One of streams has none.
func (l *Listener[C]) Stats() rdmacm.ListenerStats {
	l.mu.Lock()
	failed := l.failed
	l.mu.Unlock()
	s := l.ln.Stats()
	s.Accepted -= failed
	s.Failed += failed
	return s
}
