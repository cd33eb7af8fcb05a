// Package netconn has parts for implementing net.Conn, net.Listener and dialers. Packages rsocket and valkeyrdma share it.
package netconn

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Listener is a listener whose connections are a package's own. A connection exists from the connection request on.
type Listener[C any] struct {
	protocol error // of peers that violate the protocol
	ln       *rdmacm.Listener

	mu      sync.Mutex // guards the fields below
	pending map[*rdmacm.Conn]C
	refused bool // Accept has reported that a device lacks something
	closed  bool
}

// NewListener returns a Listener. protocol is the error of peers that violate the protocol.
func NewListener[C any](protocol error) *Listener[C] {
	return &Listener[C]{protocol: protocol, pending: make(map[*rdmacm.Conn]C)}
}

// Listen begins to listen. The configuration's Prepare calls [Listener.Add].
func (l *Listener[C]) Listen(ctx context.Context, lc *rdmacm.ListenConfig, address string) (err error) {
	l.ln, err = lc.Listen(ctx, address)
	return err
}

// Add adds the connection that Accept returns for rc.
func (l *Listener[C]) Add(rc *rdmacm.Conn, c C) {
	l.mu.Lock()
	l.pending[rc] = c
	l.mu.Unlock()
	rc.Own(&entry[C]{l, rc})
}

// entry is the entry of a connection in Listener.pending.
type entry[C any] struct {
	l  *Listener[C]
	rc *rdmacm.Conn
}

// Close removes the entry.
func (e *entry[C]) Close() error {
	e.l.take(e.rc)
	return nil
}

func (l *Listener[C]) take(rc *rdmacm.Conn) C {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.pending[rc]
	delete(l.pending, rc)
	return c
}

// Accept returns an established connection, once begin has started its protocol. If begin fails, the connection is
// closed. An error matches net.ErrClosed, or is a temporary one.
func (l *Listener[C]) Accept(begin func(*rdmacm.Conn, C) error) (c C, err error) {
	for {
		rc, err := l.ln.Accept(context.Background())
		if err == nil {
			mine := l.take(rc)
			if err = begin(rc, mine); err == nil {
				return mine, nil
			}
			_ = rc.Close()
		}
		switch {
		case errors.Is(err, net.ErrClosed):
			return c, err
		case isAny(err, verbs.ErrNotSupported, verbs.ErrNoProvider):
			if l.isFirstRefusal() {
				return c, &acceptError{err}
			}
		case !isPeerFault(err, l.protocol):
			return c, &acceptError{err}
		}
	}
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
		return net.ErrClosed
	}
	return l.ln.Close()
}

// Addr returns the address listened on.
func (l *Listener[C]) Addr() netip.AddrPort { return l.ln.Addr() }

// acceptError is an error that concerns one peer. Servers such as net/http's continue after it.
type acceptError struct{ error }

func (e *acceptError) Unwrap() error { return e.error }
func (*acceptError) Timeout() bool   { return false }
func (*acceptError) Temporary() bool { return true }

// isPeerFault reports whether the peer caused an error of rdmacm.Listener.Accept. protocol is the error of peers that
// violate the protocol. A listener hides such errors. Otherwise peers that cause them would keep others out, because
// net/http waits for up to a second after each temporary error.
//
// Errors of the verb modify count, because it fails when the peer leaves or has sent wrong parameters. Errors of other
// verbs don't. All errors of the connection manager's commands and events count, unless this machine lacks resources.
func isPeerFault(err, protocol error) bool {
	if isAny(err, protocol, rdmacm.ErrDisconnected, syscall.ENOTCONN, syscall.ECONNRESET) {
		return true
	}
	var verb *uverbs.Error
	if errors.As(err, &verb) && verb.Op != "modify" {
		return false
	}
	return !isAny(err, rdmacm.ErrDeviceRemoved, syscall.EACCES, syscall.EPERM,
		syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSPC)
}

func isAny(err error, causes ...error) bool {
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}
