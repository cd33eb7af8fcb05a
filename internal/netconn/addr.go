package netconn

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/goverbs/goverbs/verbs"
)

// Addr is the address of one end of a connection, or of a listener.
type Addr struct {
	network string
	addr    netip.AddrPort
}

// Network returns the name of the network.
func (a Addr) Network() string { return a.network }

// String returns address and port, as in "10.0.0.1:7471" and "[fe80::1%eth0]:7471".
func (a Addr) String() string { return a.addr.String() }

// AddrPort returns address and port.
func (a Addr) AddrPort() netip.AddrPort { return a.addr }

// OpError returns a *net.OpError, as connections of package net do, with a *verbs.Error within.
func OpError(network, op string, local, remote netip.AddrPort, err error) error {
	e := &net.OpError{Op: op, Net: network, Err: err}
	if local.IsValid() {
		e.Source = Addr{network, local}
	}
	if remote.IsValid() {
		e.Addr = Addr{network, remote}
	}
	inner := new(verbs.Error)
	switch {
	case !errors.As(err, &inner):
		e.Err = &verbs.Error{Err: err}
	case inner.Error() == err.Error() && strings.HasPrefix(inner.Op+" ", op+" "):
		e.Err = named{err, inner.Op}
		if inner.Object == remote.String() || inner.Object == local.String() {
			e.Err = named{err, inner.Op + " " + inner.Object}
		}
	case !hasTimeout(err): // several errors
		e.Err = named{err, ""}
	}
	return e
}

func hasTimeout(err error) bool {
	_, ok := err.(interface{ Timeout() bool })
	return ok
}

// named is an error whose text leaves out how it begins, because the *net.OpError around it has that.
type named struct {
	error
	start string
}

func (e named) Error() string {
	return strings.TrimLeft(strings.TrimPrefix(e.error.Error(), e.start), ": ")
}

func (e named) Unwrap() error { return e.error }

// Timeout and Temporary are for net.OpError, which asks its cause alone.
func (e named) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.error, &t) && t.Timeout()
}

func (e named) Temporary() bool {
	var t interface{ Temporary() bool }
	return errors.As(e.error, &t) && t.Temporary()
}

// CloseNil returns the error of Close for a nil pointer.
func CloseNil(object string) error {
	return &verbs.Error{Op: "close", Object: object, Err: os.ErrInvalid, Hint: "the pointer is nil"}
}
