package rsocket

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// ErrProtocol is matched by the error of a connection whose peer broke the rules of
// rsocket, or does not speak it.
var ErrProtocol = errors.New("the peer does not keep to the rsocket protocol")

// ErrNotMapped is matched by the error of a WriteAt where the peer has mapped no memory.
var ErrNotMapped = errors.New("the peer has mapped no memory there")

// violation says which rule the peer broke.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// opError is the error that package net's connections return.
func opError(op string, local, remote netip.AddrPort, err error) error {
	e := &net.OpError{Op: op, Net: network, Err: err}
	if local.IsValid() {
		e.Source = Addr{local}
	}
	if remote.IsValid() {
		e.Addr = Addr{remote}
	}
	return e
}
