package driver

import (
	"errors"
	"net"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// The errors of providers, alone or wrapped. Package uverbs has all but the last under
// the same names.
var (
	// ErrNotSupported matches every way in which the kernel, the driver or the
	// provider says that it lacks a feature.
	// It is also an errors.ErrUnsupported.
	ErrNotSupported = netlinkrdma.ErrNotSupported
	// ErrClosed is the result of using a closed object.
	ErrClosed = net.ErrClosed
	// ErrQueueFull means that a queue has no room for another work request.
	ErrQueueFull = errors.New("queue full")
	// ErrInvalidWR refuses a work request that the device could not carry out.
	ErrInvalidWR = errors.New("invalid work request")
	// ErrQPFailing is how PostSend says that the device is letting go of the QP. What
	// was posted will be flushed. Users never see it.
	ErrQPFailing = errors.New("QP is going to the error state")
)
