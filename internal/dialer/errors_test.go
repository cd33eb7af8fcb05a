package dialer

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

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
