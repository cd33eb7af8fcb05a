package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/verbs"
)

// OpError describes a failed operation of the connection manager: the operation, its object, the cause
// and, if it is known, a remedy. errors.Is matches the errno or sentinel. It is a [net.Error].
type OpError struct {
	Op     string // "resolve address", "connect", …
	Object string // the address, ID or device concerned; may be empty
	Hint   string // the remedy; may be empty
	Err    error

	onePeer bool // see the function onePeer
}

func (e *OpError) Error() string {
	s := "rdmacm: " + e.Op
	if e.Object != "" {
		s += " " + e.Object
	}
	s += ": " + e.Err.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *OpError) Unwrap() error { return e.Err }

// Is makes the errnos that mean "not supported" match verbs.ErrNotSupported.
func (e *OpError) Is(target error) bool {
	return target == verbs.ErrNotSupported && errors.Is(e.Err, errors.ErrUnsupported)
}

// Timeout reports whether the kernel timed out or the deadline of the caller's context passed.
func (e *OpError) Timeout() bool {
	return errors.Is(e.Err, syscall.ETIMEDOUT) || errors.Is(e.Err, context.DeadlineExceeded)
}

// Temporary reports whether the same call may succeed later: after a timeout, when the process was out
// of descriptors, or when a Listener failed to accept one peer.
func (e *OpError) Temporary() bool {
	var errno syscall.Errno
	return e.onePeer || e.Timeout() || errors.As(e.Err, &errno) && errno.Temporary()
}

// onePeer marks an error of a Listener that concerns one peer. It is temporary for any cause, because
// the listener continues.
func onePeer(err error) error {
	if err == nil {
		return nil
	}
	e, ok := err.(*OpError)
	if !ok {
		return &OpError{Op: "accept", Err: err, onePeer: true}
	}
	own := *e
	own.onePeer = true
	return &own
}

// ErrDisconnected is the error for the orderly end of a connection. [Conn.Err] and waits return it once
// either side has disconnected or the peer's program has ended.
var ErrDisconnected = errors.New("peer disconnected")

// ErrDeviceRemoved is the error for the removal of the RDMA device. [Conn.Err] then returns it, and the
// error of [Listener.Accept] matches it.
var ErrDeviceRemoved = errors.New("RDMA device removed")

// listenerEnd is the error of a listener that ended without Close. It matches net.ErrClosed, so that
// loops that call Accept end.
type listenerEnd struct{ cause error }

func (e *listenerEnd) Error() string        { return "rdmacm: the listener has ended: " + e.cause.Error() }
func (e *listenerEnd) Unwrap() error        { return e.cause }
func (e *listenerEnd) Is(target error) bool { return target == net.ErrClosed }

// closeNil returns the error of Close for a nil pointer.
func closeNil(object string) error {
	return &OpError{Op: "close", Object: object, Err: os.ErrInvalid, Hint: "the pointer is nil"}
}

var errUnexpected = errors.New("unexpected event")

// RejectReason is the reason why the peer refused a connection. The numbers are those of the InfiniBand
// architecture, section 12.6.7.2.
type RejectReason uint16

// These are the reasons that programs act upon.
const (
	RejectNoQP             RejectReason = 1
	RejectTimeout          RejectReason = 4
	RejectInvalidServiceID RejectReason = 8 // no listener on that port
	RejectStaleConn        RejectReason = 10
	RejectConsumer         RejectReason = 28 // the peer's program refused
	RejectVendorOption     RejectReason = 35 // the peer refuses the options in ConnParam.ECE
)

func (r RejectReason) String() string {
	switch r {
	case RejectNoQP:
		return "no QP"
	case RejectTimeout:
		return "timeout"
	case RejectInvalidServiceID:
		return "no listener on that port"
	case RejectStaleConn:
		return "stale connection"
	case RejectConsumer:
		return "rejected by the peer program"
	case RejectVendorOption:
		return "vendor options not supported"
	}
	return fmt.Sprintf("RejectReason(%d)", uint16(r))
}

// lookupReason returns the reject reason for a status in the answer to a lookup (SIDR_REP, section 12.11
// of the specification). For a status without a matching reason it returns a number that is not a
// reason.
func lookupReason(status int32) RejectReason {
	switch status {
	case 1: // no service at that address
		return RejectInvalidServiceID
	case 2:
		return RejectConsumer
	case 3:
		return RejectNoQP
	}
	return RejectReason(uint8(status)) + 256
}

// RejectedError is the error for a connection that the peer refused. It matches syscall.ECONNREFUSED for
// all reasons.
type RejectedError struct {
	// Reason is the peer's reason. It is 0 on iWARP, which has no reasons.
	Reason RejectReason
	// Errno is the error that iWARP reports instead of a reason. It is 0 on InfiniBand and RoCE.
	Errno syscall.Errno
	// PrivateData is the private data that the peer passed to Reject. InfiniBand and RoCE pad
	// it with zeros to 148 bytes, and for datagrams to 136.
	PrivateData []byte
}

func (e *RejectedError) Error() string {
	if e.Errno != 0 {
		return "connection rejected: " + e.Errno.Error()
	}
	return "connection rejected: " + e.Reason.String()
}

// Is makes a rejection a refused connection, as over TCP.
func (e *RejectedError) Is(target error) bool {
	return target == syscall.ECONNREFUSED || e.Errno != 0 && target == e.Errno
}

func openError(err error) error {
	e := &OpError{Op: "open", Object: kernel.CMPath, Err: err}
	if path := new(fs.PathError); errors.As(err, &path) {
		e.Err = path.Err
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		e.Err, e.Hint = verbs.ErrNotSupported, "RDMA connection management is available on Linux only"
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		e.Hint = "run modprobe rdma_ucm; in a container, also pass in the device node, --device " + kernel.CMPath
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		e.Hint = "the device node normally has mode 0666: check its mode and, in a container, that the devices cgroup allows it"
	}
	return e
}

const newCredentials = "the credentials changed since the channel was opened: open a new one (after setuid, only a newly started program can)"

// commandError explains the errnos whose meaning is the same for all commands. object may be nil. Its
// String method is called only if there is an error.
func commandError(op string, object fmt.Stringer, err error) error {
	if err == nil {
		return nil
	}
	e := &OpError{Op: op, Err: err}
	if object != nil {
		e.Object = object.String()
	}
	switch err {
	case syscall.EACCES:
		e.Hint = newCredentials
	case syscall.ENOENT, syscall.ENXIO:
		e.Hint = "the kernel has dropped this ID: it was destroyed, or its device was removed"
	case syscall.EFAULT, syscall.ENOSPC:
		e.Hint = "the kernel refused the memory passed to it; please report this"
	case syscall.ENOSYS:
		e.Hint = "this kernel does not support it"
	}
	return e
}

// hinted is commandError with hints for one command.
func hinted(op string, object fmt.Stringer, err error, hints map[syscall.Errno]string) error {
	if err == nil {
		return nil
	}
	e := commandError(op, object, err).(*OpError)
	var errno syscall.Errno
	if errors.As(err, &errno) && hints[errno] != "" {
		e.Hint = hints[errno]
	}
	return e
}
