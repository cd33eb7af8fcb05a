package cli

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
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

// from is a connection of a peer with an address.
type from struct {
	net.Conn
	peer netip.AddrPort
}

func (c from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

// queue is a listener of the connections that are sent to it.
type queue struct {
	*script
	conns chan net.Conn
}

func (q queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// TestAcceptAllShare checks that idle connections of one address leave places for others, that those above the share
// are closed, and that they get places again when others leave.
func TestAcceptAllShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 16
		q := queue{newScript(), make(chan net.Conn)}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(map[string]int)
		leave := make(chan struct{})
		var mu sync.Mutex
		var complaints []string
		done := make(chan error)
		go func() {
			done <- AcceptAll(ctx, q, most, func(ctx context.Context, c net.Conn) {
				defer c.Close()
				mu.Lock()
				served[c.(from).peer.Addr().Unmap().String()]++
				mu.Unlock()
				select {
				case <-leave:
				case <-ctx.Done():
				}
			}, func(err error) { complaints = append(complaints, err.Error()) })
		}()
		dial := func(address string) {
			a, b := net.Pipe()
			t.Cleanup(func() { b.Close() })
			q.conns <- from{a, netip.AddrPortFrom(netip.MustParseAddr(address), 1)}
			synctest.Wait()
		}
		for range 100 {
			dial("10.0.0.1")
			dial("::ffff:10.0.0.1")
		}
		flooder := served["10.0.0.1"]
		if flooder < most/4 || flooder > 3*most/4 || len(complaints) != 1 || !strings.Contains(complaints[0], "10.0.0.1]:1: refused") && !strings.Contains(complaints[0], "10.0.0.1:1: refused") {
			t.Errorf("%d of %d places, %q", flooder, most, complaints)
		}
		for range 100 {
			dial("10.0.0.2")
		}
		for _, honest := range []string{"10.0.0.3", "fd00::4"} {
			if dial(honest); served[honest] != 1 {
				t.Errorf("%s is not served: %v", honest, served)
			}
		}
		close(leave)
		synctest.Wait()
		if dial("10.0.0.1"); served["10.0.0.1"] != flooder+1 {
			t.Errorf("%v", served)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
