// Package netconn has parts for implementing net.Conn, net.Listener and dialers. Packages rsocket and valkeyrdma share it.
package netconn

import (
	"errors"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Temporary returns an error that wraps err and whose Temporary method returns true. Such an error does not end a listener.
func Temporary(err error) error { return &acceptError{err} }

// acceptError is an error that concerns one peer. Servers such as net/http's continue after it.
type acceptError struct{ error }

func (e *acceptError) Unwrap() error { return e.error }
func (*acceptError) Timeout() bool   { return false }
func (*acceptError) Temporary() bool { return true }

// IsPeerFault reports whether the peer caused an error of rdmacm.Listener.Accept. protocol is the error of peers that
// violate the protocol. A listener hides such errors. Otherwise peers that cause them would keep others out, because
// net/http waits for up to a second after each temporary error.
//
// Errors of the verb modify count, because it fails when the peer leaves or has sent wrong parameters. Errors of other
// verbs don't. All errors of the connection manager's commands and events count, unless this machine lacks resources.
func IsPeerFault(err, protocol error) bool {
	if isAny(err, protocol, rdmacm.ErrDisconnected, syscall.ENOTCONN, syscall.ECONNRESET) {
		return true
	}
	var verb *uverbs.Error
	if errors.As(err, &verb) && verb.Op != "modify" {
		return false
	}
	return !isAny(err, rdmacm.ErrDeviceRemoved, verbs.ErrNotSupported, verbs.ErrNoProvider, syscall.EACCES, syscall.EPERM,
		syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ENOSPC)
}

func isAny(err error, causes ...error) bool {
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}
