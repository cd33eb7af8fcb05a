package cli

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
)

// scarce is a listener that lacks descriptors once, then has a connection, then fails.
type scarce struct {
	net.Listener
	calls  int
	failed error
}

func (s *scarce) Accept() (net.Conn, error) {
	switch s.calls++; s.calls {
	case 1:
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	case 2:
		a, b := net.Pipe()
		return a, b.Close()
	}
	return nil, s.failed
}

func (s *scarce) Close() error { return nil }

// A lack that passes ends nothing; another error does, when all are served.
func TestAcceptAll(t *testing.T) {
	l := &scarce{failed: errors.New("broken")}
	complaints, served := 0, 0
	err := AcceptAll(t.Context(), l, func(c net.Conn) { served++; c.Close() }, func(err error) {
		if complaints++; !errors.Is(err, syscall.EMFILE) {
			t.Error(err)
		}
	})
	if err != l.failed || complaints != 1 || served != 1 {
		t.Error(err, complaints, served)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := AcceptAll(ctx, &scarce{calls: 2, failed: net.ErrClosed}, nil, nil); err != nil {
		t.Error("after the end:", err)
	}
}
