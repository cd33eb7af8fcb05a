package verbs

import (
	"errors"
	"net"
)

var (
	// ErrNotSupported matches every way in which the kernel, the driver or the
	// provider says that it lacks a feature.
	ErrNotSupported error = notSupported("not supported")
	// ErrInUse refuses to close an object that others still use.
	ErrInUse = errors.New("in use")
	// ErrClosed is the result of using, or closing, a closed object. It is net.ErrClosed.
	ErrClosed = net.ErrClosed
	// ErrNoProvider means that the program links no provider for the driver.
	ErrNoProvider = errors.New("no provider")
	// ErrNoDevice means that there is no such RDMA device.
	ErrNoDevice = errors.New("no such RDMA device")
	// ErrNoGID means that a port has no such GID.
	ErrNoGID = errors.New("no such GID")
	// ErrQueueFull means that a queue has no room for another work request.
	ErrQueueFull = errors.New("queue full")
	// ErrInvalidWR refuses a work request that the device could not carry out.
	ErrInvalidWR = errors.New("invalid work request")
)

type notSupported string

func (e notSupported) Error() string { return string(e) }

func (notSupported) Is(target error) bool {
	return target == errors.ErrUnsupported || target == ErrNotSupported
}
