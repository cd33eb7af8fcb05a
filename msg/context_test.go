package msg

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// waits are calls that wait until their context ends, by their operations. The peer of a
// makes no call, and nobody dials the listener.
func waits(a *Conn, l *Listener) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"receive": func(ctx context.Context) error { _, err := a.Recv(ctx); return err },
		"send": func(ctx context.Context) error {
			for {
				if err := a.Send(ctx, []byte("and so on")); err != nil {
					return err
				}
			}
		},
		"accept": func(ctx context.Context) error { _, err := l.Accept(ctx); return err },
	}
}

// TestContextErrors checks that an error caused by a context names operation and object, and matches
// the error of the context. It is a timeout if the deadline has passed.
func TestContextErrors(t *testing.T) {
	anywhere(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		a, _ := connect(t, &cfg)
		for op, call := range waits(a, l) {
			object := a.object()
			if op == "accept" {
				object = " at " // its address, or the name of a listener without one
			}
			for range 2 { // the second context has ended when the call begins
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				check := func(want error, timeout bool) {
					t.Helper()
					err := call(ctx)
					var e net.Error
					if !errors.Is(err, want) || !errors.As(err, &e) || e.Timeout() != timeout {
						t.Errorf("%s: %v, want %v", op, err, want)
					} else if text := err.Error(); !strings.Contains(text, op) || !strings.Contains(text, object) {
						t.Errorf("%q names no operation or object", text)
					}
				}
				check(context.DeadlineExceeded, true)
				check(context.DeadlineExceeded, true)
				cancel()
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(10*time.Millisecond, cancel)
				check(context.Canceled, false)
				check(context.Canceled, false)
			}
		}
	})
}

// TestClosedErrors checks that every call on a closed connection or with a closed region returns an
// error that matches net.ErrClosed.
func TestClosedErrors(t *testing.T) {
	anywhere(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		theirs, ours := readable(t, a, b)
		buffer, err := a.Alloc(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		large, err := a.Alloc(t.Context(), a.eager+1)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		ctx := t.Context()
		calls := map[string]func() error{
			"allocate":          func() error { _, err := a.Alloc(ctx, 1); return err },
			"allocate large":    func() error { _, err := a.Alloc(ctx, a.eager+1); return err },
			"send":              func() error { return a.Send(ctx, []byte("x")) },
			"send large":        func() error { return a.Send(ctx, make([]byte, a.eager+1)) },
			"send buffer":       func() error { return a.SendBuffer(ctx, buffer) },
			"send large buffer": func() error { return a.SendBuffer(ctx, large) },
			"receive":           func() error { _, err := a.Recv(ctx); return err },
			"read":              func() error { return a.Read(ctx, ours.Span(0, 8), theirs.Remote(), 0) },
			"set":               func() error { return a.SetLinger(1) },
			"close":             func() error { return a.Close() },
		}
		if cfg.Pool == nil {
			calls["register"] = func() error { _, err := a.Register(make([]byte, 8), 0); return err }
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
