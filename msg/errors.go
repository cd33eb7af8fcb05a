package msg

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Error is what every call of this package fails with, but for [io.EOF]. errors.Is
// finds the cause: the context's error, [net.ErrClosed] after Close, [ErrProtocol],
// [ErrTooLong], [ErrPeerClosed], rdmacm.ErrDisconnected when the peer went without a
// closing frame, a verbs.Status, and whatever else rdmacm's Conn.Err tells.
type Error struct {
	Op  string // "send", "receive", "read", …
	Err error
}

func (e *Error) Error() string { return "msg: " + e.Op + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Timeout tells that a deadline passed.
func (e *Error) Timeout() bool {
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, os.ErrDeadlineExceeded)
}

// Temporary reports whether an error of [Listener.Accept] concerns one peer only, so that
// the listener goes on.
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
	// ErrTooLong means that a message is longer than the peer takes.
	ErrTooLong = errors.New("the message is longer than the peer takes")
	// ErrPeerClosed means that a message can't be sent because the peer has closed.
	ErrPeerClosed = errors.New("the peer has closed the connection")
	// ErrPoolFull means that a pool has no room for another connection.
	ErrPoolFull = errors.New("the pool has no room for another connection")
	// ErrInUse refuses to close what connections or work requests still use.
	ErrInUse = errors.New("in use")
	// ErrOutOfBounds refuses an access to a region beyond its end or without the right.
	ErrOutOfBounds = errors.New("the region does not allow this access")
)

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// failed wraps what is not wrapped yet.
func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return e
	}
	return &Error{op, err}
}
