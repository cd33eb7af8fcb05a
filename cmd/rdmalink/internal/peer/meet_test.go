package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// TestAcceptFirst checks that clients whose handshakes fail are skipped, and that other
// errors end the server.
func TestAcceptFirst(t *testing.T) {
	local := errors.New("no device")
	theirs := []error{nil, fmt.Errorf("accept: %w", rdmacm.ErrDisconnected), syscall.ETIMEDOUT, syscall.EINVAL}
	for _, test := range []struct{ last, want error }{{nil, nil}, {local, local}, {net.ErrClosed, net.ErrClosed}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var notes []error
			n := 0
			err := AcceptFirst(t.Context(), func(context.Context) (int, error) {
				n++
				if n > len(theirs) && errors.Is(test.last, net.ErrClosed) {
					return 0, test.last
				}
				return n, nil
			}, func(ctx context.Context, n int) error {
				switch {
				case n > len(theirs):
					return test.last
				case theirs[n-1] != nil:
					return theirs[n-1]
				}
				<-ctx.Done() // a client that says nothing more
				return ctx.Err()
			}, func(err error) { notes = append(notes, err) })
			if err != test.want || len(notes) != len(theirs) || time.Since(start) != HandshakeLimit {
				t.Error(err, notes, time.Since(start))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := AcceptFirst(ctx, func(ctx context.Context) (int, error) { return 0, ctx.Err() }, nil, nil)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
