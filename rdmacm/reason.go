package rdmacm

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/dialer"
)

// ErrBusy is the error of a peer that has no room for a connection now, and may have later. A dial
// with this error failed although it was repeated. A Config.Prepare or Config.PrepareQP that returns an
// error which matches ErrBusy rejects the peer with the reason RejectBusy.
var ErrBusy error = dialer.Temporary{Err: errors.New("no room for a connection now")}

// ErrOtherProtocol is the error of a peer that speaks another protocol. A Config.Prepare or
// Config.PrepareQP that returns an error which matches ErrOtherProtocol rejects the peer with the reason
// RejectOtherProtocol.
var ErrOtherProtocol = errors.New("the peer speaks another protocol")

// reasonMark begins the private data in which a Listener sends its reason. The reason follows as a byte.
const reasonMark = "goverbs reject"

// ownReason returns the private data for one of this package's own reasons.
func ownReason(r RejectReason) []byte { return append([]byte(reasonMark), uint8(r-firstOwnReason)) }

// parseReason returns the reason that private data contains, and false if it contains none.
func parseReason(private []byte) (RejectReason, bool) {
	if len(private) <= len(reasonMark) || string(private[:len(reasonMark)]) != reasonMark ||
		slices.ContainsFunc(private[len(reasonMark)+1:], func(b byte) bool { return b != 0 }) {
		return 0, false
	}
	return firstOwnReason + RejectReason(private[len(reasonMark)]), true
}

// rejected makes the error of a rejection. private is the private data of the event.
func rejected(e RejectedError, private []byte) *RejectedError {
	if own, ok := parseReason(private); ok {
		e.Reason = own
	} else {
		e.PrivateData = private
	}
	return &e
}

// errEvicted is the cause of the end of a handshake that gives its place to another one.
var errEvicted = errors.New("the place of the handshake was needed")

// reasonFor returns the reason to send to a peer whose request fails with err. ctx is that of the attempt.
func reasonFor(ctx context.Context, err error) RejectReason {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, ErrOtherProtocol):
		return RejectOtherProtocol
	case errors.Is(cause, net.ErrClosed):
		return RejectClosing
	case errors.Is(err, ErrBusy), cause != nil: // evicted, or not done in time
		return RejectBusy
	}
	return RejectRefused
}

// patience returns how often Dial repeats an attempt that failed with err. A peer over iWARP that rejects
// without private data may be a kernel whose queue is full.
func patience(err error) dialer.Patience {
	var rejected *RejectedError
	switch {
	case !errors.As(err, &rejected):
		return dialer.Never
	case errors.Is(err, ErrBusy):
		return dialer.Patiently
	case rejected.isBare():
		return dialer.Briefly
	}
	return dialer.Never
}

func init() { dialer.OfError = patience }

// isBare reports whether the peer gave no reason at all, which is possible over iWARP only.
func (e *RejectedError) isBare() bool {
	return e.Errno == syscall.ECONNRESET && e.Reason == 0 && len(e.PrivateData) == 0
}

// isSilent reports whether the peer's kernel may have rejected, because its program destroyed the ID.
func (e *RejectedError) isSilent() bool {
	return (e.Reason == RejectConsumer || e.Reason == RejectTimeout) && !slices.ContainsFunc(e.PrivateData, func(b byte) bool { return b != 0 })
}

// isBusy reports whether the peer may accept another attempt.
func (e *RejectedError) isBusy() bool {
	return e.Reason == RejectBusy || e.Reason == abi.IB_CM_REJ_NO_RESOURCES
}
