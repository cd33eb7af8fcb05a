package netconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// A *net.OpError reports a deadline also where the error has several causes.
func TestOpErrorTimeout(t *testing.T) {
	refused := &verbs.Error{Op: "dial", Err: errors.New("refused")}
	for _, test := range []struct {
		err     error
		timeout bool
	}{
		{context.DeadlineExceeded, true},
		{fmt.Errorf("%w (attempt 2 failed: %w)", context.DeadlineExceeded, refused), true},
		{fmt.Errorf("%w (attempt 2 failed: %w)", context.Canceled, refused), false},
		{errors.Join(&verbs.Error{Op: "dial", Err: context.DeadlineExceeded}, refused), true},
		{errors.Join(refused, refused), false},
	} {
		err := OpError("rsocket", "dial", netip.AddrPort{}, netip.AddrPort{}, test.err)
		if e := err.(net.Error); e.Timeout() != test.timeout || e.Error() != "dial rsocket: "+test.err.Error() || !errors.Is(err, test.err) {
			t.Errorf("%v: time-out %v", err, e.Timeout())
		}
	}
}
