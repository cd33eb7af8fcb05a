package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

var _ net.Error = (*verbs.Error)(nil)

// mark is an error that adds no text to another one.
type mark struct{ error }

func (m mark) Unwrap() error { return m.error }

func TestErrorText(t *testing.T) {
	reset := &verbs.Error{Op: "accept", Object: "10.0.0.2:7471", Err: syscall.ECONNRESET}
	inner := &verbs.Error{Op: "connect", Object: "10.0.0.2:7471", Err: syscall.ECONNREFUSED, Hint: "start the server"}
	for want, err := range map[string]*verbs.Error{
		"create QP on siw0 (driver siw): not supported: use RC": {Op: "create", Object: "QP", Device: "siw0", Driver: "siw", Err: verbs.ErrNotSupported, Hint: "use RC"},
		"list: invalid argument; input/output error":            {Op: "list", Err: errors.Join(syscall.EINVAL, syscall.EIO)},
		"use of closed network connection":                      {Err: net.ErrClosed},

		"accept 10.0.0.2:7471: connection reset by peer": {Op: "accept", Object: "10.0.0.2:7471", Err: mark{reset}},

		"dial 10.0.0.2:7471: connect: connection refused: start the server":         {Op: "dial", Object: "10.0.0.2:7471", Err: inner},
		"dial storage: connect 10.0.0.2:7471: connection refused: start the server": {Op: "dial", Object: "storage", Err: inner},
		"prepare on siw0: create QP: out of memory":                                 {Op: "prepare", Device: "siw0", Err: &verbs.Error{Op: "create", Object: "QP", Device: "siw0", Err: errors.New("out of memory")}},
	} {
		if err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestErrorMatches(t *testing.T) {
	for _, missing := range []error{verbs.ErrNotSupported, errors.ErrUnsupported, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EPROTONOSUPPORT, syscall.ENOTTY} {
		err := &verbs.Error{Op: "create", Err: fmt.Errorf("wrapped: %w", missing)}
		if !errors.Is(err, verbs.ErrNotSupported) || !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, missing) {
			t.Errorf("%v matches too little", err)
		}
	}
	if err := (&verbs.Error{Op: "create", Err: syscall.EINVAL}); errors.Is(err, verbs.ErrNotSupported) || !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	for _, test := range []struct {
		cause              error
		timeout, temporary bool
	}{
		{context.DeadlineExceeded, true, true},
		{os.ErrDeadlineExceeded, true, true},
		{syscall.ETIMEDOUT, true, true},
		{fmt.Errorf("%w: %w", net.ErrClosed, context.DeadlineExceeded), true, true},
		{&verbs.Error{Op: "inner", Err: syscall.ETIMEDOUT}, true, true},
		{syscall.EMFILE, false, true},
		{context.Canceled, false, false},
		{net.ErrClosed, false, false},
		{syscall.EINVAL, false, false},
	} {
		err := &verbs.Error{Op: "wait", Err: test.cause}
		if err.Timeout() != test.timeout || err.Temporary() != test.temporary {
			t.Errorf("%v: timeout %v, temporary %v", err, err.Timeout(), err.Temporary())
		}
	}
}
