package cli

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

// script is a listener whose Accept returns the results in steps, then blocks until
// Close.
type script struct {
	net.Listener
	steps  chan error // nil: a connection
	closed chan struct{}
}

func newScript(steps ...error) *script {
	s := &script{steps: make(chan error, len(steps)), closed: make(chan struct{})}
	for _, step := range steps {
		s.steps <- step
	}
	return s
}

func (s *script) Accept() (net.Conn, error) {
	select {
	case err := <-s.steps:
		if err != nil {
			return nil, err
		}
		a, b := net.Pipe()
		return a, b.Close()
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *script) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// peerError is an error that concerns one client.
type peerError struct{ error }

func (peerError) Temporary() bool { return true }

// TestAcceptAll checks that temporary errors do not end the loop.
func TestAcceptAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newScript(&net.OpError{Op: "accept", Err: syscall.EMFILE}, nil, peerError{errors.New("handshake")}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var complaints []string
		served := make(chan struct{}, 2)
		done := make(chan error)
		go func() {
			done <- AcceptAll(ctx, l, 9, func(_ context.Context, c net.Conn) { c.Close(); served <- struct{}{} },
				func(err error) { complaints = append(complaints, err.Error()) })
		}()
		<-served
		<-served
		cancel()
		if err := <-done; err != nil || len(complaints) != 2 || complaints[1] != "handshake" {
			t.Error(err, complaints)
		}
	})
}

// TestAcceptAllFails checks that a listener that fails is closed, that its failure is
// reported, and that idle clients are disconnected at once.
func TestAcceptAllFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		l := newScript(nil, nil, broken)
		var complaint error
		ended := 0
		err := AcceptAll(t.Context(), l, 9, func(ctx context.Context, c net.Conn) {
			<-ctx.Done() // an idle client
			<-l.closed
		}, func(err error) { complaint = err; ended++ })
		if err != broken || ended != 1 || !errors.Is(complaint, broken) || !strings.Contains(complaint.Error(), "ends 2 connections") {
			t.Error(err, complaint)
		}
	})
}

// TestAcceptAllLimit checks that clients above the limit wait, that this is reported,
// and that they are served later.
func TestAcceptAllLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newScript(nil, nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var complaint string
		begun, leave := make(chan struct{}, 3), make(chan struct{})
		done := make(chan error)
		go func() {
			done <- AcceptAll(ctx, l, 2, func(ctx context.Context, c net.Conn) {
				begun <- struct{}{}
				select {
				case <-leave:
				case <-ctx.Done():
				}
			}, func(err error) { complaint = err.Error() })
		}()
		synctest.Wait()
		if len(begun) != 2 || !strings.HasPrefix(complaint, "serving 2 connections, the limit") {
			t.Errorf("%d begun, %q", len(begun), complaint)
		}
		leave <- struct{}{}
		synctest.Wait()
		if len(begun) != 3 {
			t.Errorf("%d begun", len(begun))
		}
		cancel() // while it waits for a place
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
