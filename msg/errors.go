package msg

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Error is the type of all errors of this package, except [io.EOF]. errors.Is matches
// the cause: the error of the context, [net.ErrClosed] after Close, [ErrProtocol],
// [ErrTooLong], [ErrPeerClosed], rdmacm.ErrDisconnected if the peer disconnected
// without a closing frame, a verbs.Status, or any error of rdmacm's Conn.Err.
type Error struct {
	Op     string // "send", "receive", "read", …
	Object string // "connection to 10.0.0.2:7471", "pool on siw0", …; may be empty
	Err    error
}

func (e *Error) Error() string {
	if e.Object != "" {
		return "msg: " + e.Object + ": " + e.Op + ": " + e.Err.Error()
	}
	return "msg: " + e.Op + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Timeout reports whether a deadline passed.
func (e *Error) Timeout() bool {
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, os.ErrDeadlineExceeded)
}

// Temporary reports whether an error of [Listener.Accept] concerns only one peer, so
// that the listener continues to accept others.
func (e *Error) Temporary() bool {
	_, ok := e.Err.(ofPeer)
	return ok
}

// ofPeer marks an error that concerns one peer of a listener.
type ofPeer struct{ error }

func (e ofPeer) Unwrap() error { return e.error }

var (
	// ErrProtocol means that the peer broke the protocol, which ends the connection.
	ErrProtocol = errors.New("the peer broke the protocol")
	// ErrTooLong means that a message is longer than the peer accepts.
	ErrTooLong = errors.New("the message is longer than the peer accepts")
	// ErrPeerClosed means that a message can't be sent because the peer has closed.
	ErrPeerClosed = errors.New("the peer has closed the connection")
	// ErrPoolFull means that a pool has no room for another connection.
	ErrPoolFull = errors.New("the pool has no room for another connection")
	// ErrInUse means that an object can't be closed, because connections or work
	// requests still use it.
	ErrInUse = errors.New("in use")
	// ErrOutOfBounds means that an access is beyond the end of a region, or that the
	// region does not grant the right.
	ErrOutOfBounds = errors.New("the region does not allow this access")
)

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// failed wraps err, unless it is nil or wrapped already.
func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	return &Error{Op: op, Err: err}
}

// failed wraps err, unless it is nil or wrapped already.
func (c *Conn) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return failedOn(c.object(), op, err)
}

func (c *Conn) object() string {
	if c.cm == nil { // in a test
		return "connection"
	}
	return "connection to " + c.RemoteAddr().String()
}

func (p *Pool) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return failedOn("pool on "+p.dev.Info().Name, op, err)
}

// failedOn wraps err, unless it is nil or wrapped already.
func failedOn(object, op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	return &Error{op, object, err}
}
