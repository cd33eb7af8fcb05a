package verbs

import (
	"errors"
	"net"
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
	// ErrInvalidWR means that a work request is malformed.
	ErrInvalidWR = errors.New("invalid work request")
)

type notSupported string

func (e notSupported) Error() string { return string(e) }

func (notSupported) Is(target error) bool {
	return target == errors.ErrUnsupported || target == ErrNotSupported
}
