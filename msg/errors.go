package msg

import (
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/verbs"
)

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

// failed wraps err, unless it is nil or names an operation already.
func failed(op string, err error) error {
	if e := new(verbs.Error); errors.As(err, &e) && e.Error() == err.Error() { // itself, or with a mark that adds no text
		return err
	}
	return failedOn("", op, err)
}

// failed wraps err, unless it is nil or wrapped already.
func (c *Conn) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return failedOn(c.object(), op, err)
}

func (c *Conn) object() string {
	if c.base() == nil { // in a test
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

// failedOn wraps err, unless it is nil, an error of the same operation, or wrapped with the object already.
func failedOn(object, op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*verbs.Error); ok && (e.Op == op || object != "" && e.Object == object) {
		return e
	}
	return dialer.Within(op, object, err)
}
