package dialer

import (
	"context"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// Temporary is an error after which the same call may succeed, such as one of Accept that concerns only one
// peer. A verbs.Error with this cause reports so.
type Temporary struct{ Err error }

func (e Temporary) Error() string   { return e.Err.Error() }
func (e Temporary) Unwrap() error   { return e.Err }
func (e Temporary) Temporary() bool { return true }

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
