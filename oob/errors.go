package oob

import (
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

var (
	// ErrProtocol means that the peer broke the protocol.
	ErrProtocol = errors.New("the peer broke the protocol")
	// ErrVersion means that the peer speaks another version of the protocol, or another protocol.
	ErrVersion = rdmacm.ErrOtherProtocol
	// ErrStale means that the peer's answer belongs to another attempt to connect.
	ErrStale = errors.New("the answer belongs to another attempt")
	// ErrMismatch means that the two ends can't be connected to each other: their transports, the types of their
	// GIDs, or the address families of these differ.
	ErrMismatch = errors.New("the two ends do not fit together")
	// ErrRefused means that the peer refused the connection. The error contains its reason.
	ErrRefused = errors.New("the peer refused")
	// ErrBusy means that a Listener has no room for another connection that is being set up.
	ErrBusy = rdmacm.ErrBusy
)

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// failed returns the error of an operation, or nil.
func failed(op, object, device string, err error) error {
	if err == nil {
		return nil
	}
	return &verbs.Error{Op: op, Object: object, Device: device, Err: err}
}

// failed returns the error of an attempt, or nil.
func (c *Config) failed(op string, err error) error {
	return failed(op, "queue pair", c.PD.Device().Info().Name, err)
}
