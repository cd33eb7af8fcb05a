package dialer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// TestTemporary checks that a temporary error matches all that its cause matches, but for net.ErrClosed.
func TestTemporary(t *testing.T) {
	cause := &verbs.Error{Op: "create", Object: "QP", Err: io.EOF}
	for _, err := range []error{
		Temporary{cause},
		Temporary{fmt.Errorf("%w: %w", net.ErrClosed, cause)},
		&verbs.Error{Op: "accept", Err: Temporary{errors.Join(cause, Temporary{net.ErrClosed})}},
	} {
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() || errors.Is(err, net.ErrClosed) || !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if e := new(verbs.Error); !errors.As(err, &e) || e != cause && e != err {
			t.Errorf("%v: %v", err, e)
		}
	}
}

// TestGoesOn checks that a listener pauses after a temporary error, unless it has ended, and that others end it at once.
func TestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		for _, c := range []struct {
			ctx    context.Context
			err    error
			want   bool
			pauses bool
		}{
			{t.Context(), Temporary{io.EOF}, true, true},
			{ended, Temporary{io.EOF}, true, false},
			{t.Context(), io.EOF, false, false},
		} {
			start := time.Now()
			if got := GoesOn(c.ctx, c.err); got != c.want || time.Since(start) > 0 != c.pauses {
				t.Errorf("%v: %v after %v", c.err, got, time.Since(start))
			}
		}
	})
}
