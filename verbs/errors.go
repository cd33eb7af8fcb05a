package verbs

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
)

var (
	// ErrNotSupported matches all errors that mean that the kernel, the driver or the
	// provider lacks a feature. They match errors.ErrUnsupported, too.
	ErrNotSupported error = notSupported("not supported")
	// ErrInUse means that an object can't be closed because others use it.
	ErrInUse = errors.New("in use")
	// ErrClosed means that an object is closed already. It is net.ErrClosed.
	ErrClosed = net.ErrClosed
	// ErrNoProvider means that the program links no provider for the driver.
	ErrNoProvider = errors.New("no provider")
	// ErrNoDevice means that there is no such RDMA device.
	ErrNoDevice = errors.New("no such RDMA device")
	// ErrNoGID means that a port has no such GID.
	ErrNoGID = errors.New("no such GID")
	// ErrQueueFull means that a queue has no room for another work request.
	ErrQueueFull = errors.New("queue full")
	// ErrCQOverflow means that a CQ had no room for a completion, so that completions are lost.
	ErrCQOverflow = errors.New("completion queue overflow")
	// ErrInvalidWR means that a work request is malformed.
	ErrInvalidWR = errors.New("invalid work request")
)

type notSupported string

func (e notSupported) Error() string { return string(e) }

func (notSupported) Is(target error) bool {
	return target == errors.ErrUnsupported || target == ErrNotSupported
}

// Error is the error of an operation. The errors of all packages are of this type or wrap one, so errors.As finds the
// operation and the object. If an operation failed within it, Err has the Error of that, and the remedy may be there:
// errors.As of Err finds it. The text has all remedies. errors.Is matches the cause. An Error is a [net.Error].
//
// If the cause is a missing feature, the error matches [ErrNotSupported] and errors.ErrUnsupported.
type Error struct {
	Op     string // operation: "create", "connect"
	Object string // what it concerns: "QP", "CQ 3", "10.0.0.2:7471"; may be empty
	Device string // RDMA device: "siw0"; may be empty
	Driver string // the device's driver, if it lacks a feature: "siw"
	Err    error  // cause: an errno, a sentinel, a Status, or the Error of the operation that failed within this one
	Hint   string // remedy; may be empty
}

// Error returns "create QP on siw0 (driver siw): not supported: hint". It leaves out the object or device of
// an operation within another one that has the same.
func (e *Error) Error() string { return e.text(&Error{}) }

func (e *Error) text(outer *Error) string {
	var b strings.Builder
	if e.Op != outer.Op || e.Object != outer.Object { // otherwise outer marks the error of the same operation
		b.WriteString(e.Op)
	}
	if e.Object != "" && e.Object != outer.Object {
		b.WriteString(" " + e.Object)
	}
	if e.Device != "" && e.Device != outer.Device {
		b.WriteString(" on " + e.Device)
	}
	if e.Driver != "" && e.Driver != outer.Driver {
		b.WriteString(" (driver " + e.Driver + ")")
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if inner := new(Error); errors.As(e.Err, &inner) && inner.Error() == e.Err.Error() { // itself, or with a mark that adds no text
		b.WriteString(inner.text(e))
	} else {
		b.WriteString(strings.ReplaceAll(e.Err.Error(), "\n", "; ")) // joined errors
	}
	if e.Hint != "" {
		b.WriteString(": " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is ErrNotSupported or errors.ErrUnsupported and the cause is a missing feature,
// however the operating system, the kernel, the driver or the provider spells it.
func (e *Error) Is(target error) bool {
	return (target == ErrNotSupported || target == errors.ErrUnsupported) &&
		(errors.Is(e.Err, errors.ErrUnsupported) || errors.Is(e.Err, syscall.EPROTONOSUPPORT) || errors.Is(e.Err, syscall.ENOTTY))
}

// Timeout reports whether the cause is a time-out, such as a context whose deadline has passed.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, syscall.ETIMEDOUT) || errors.As(e.Err, &t) && t.Timeout()
}

// Temporary reports whether the operation may succeed later: after a time-out, when the process was out of
// descriptors, when the peer is busy, or when a listener failed to accept one peer.
func (e *Error) Temporary() bool {
	var t interface{ Temporary() bool }
	return e.Timeout() || errors.As(e.Err, &t) && t.Temporary()
}
