package dialer

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// Temporary is an error after which the same call may succeed, such as one of Accept that concerns only one
// peer. A verbs.Error with this cause reports so. It does not match net.ErrClosed, even if its cause does: a peer whose
// stream or connection has been closed must not end a loop that calls Accept.
type Temporary struct{ Err error }

func (e Temporary) Error() string   { return e.Err.Error() }
func (e Temporary) Temporary() bool { return true }

func (e Temporary) Unwrap() error {
	if errors.Is(e.Err, net.ErrClosed) {
		return open{e.Err}
	}
	return e.Err
}

// open matches all that its error matches, but for net.ErrClosed.
type open struct{ error }

func (e open) Is(target error) bool { return target != net.ErrClosed && errors.Is(e.error, target) }
func (e open) As(target any) bool   { return errors.As(e.error, target) }

// GoesOn reports whether a net.Listener continues after an error of its Accept. If so, it pauses first, as package
// net/http does, because this machine may be short of something.
func GoesOn(ctx context.Context, err error) bool {
	if t, ok := err.(interface{ Temporary() bool }); !ok || !t.Temporary() {
		return false
	}
	_ = sleepUntil(ctx, time.Now().Add(5*time.Millisecond))
	return true
}

// Within returns the error of an operation within which err occurred. The remedy moves to the outer error,
// where programs look for it.
func Within(op, object string, err error) *verbs.Error {
	e := &verbs.Error{Op: op, Object: object, Err: err}
	if inner, ok := err.(*verbs.Error); ok {
		own := *inner
		e.Hint, own.Hint = own.Hint, ""
		e.Err = &own
	}
	return e
}
