package rsocket

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestAcceptTemporary checks that a shortage of this machine is a temporary error of Accept, and the
// next peer is let in.
func TestAcceptTemporary(t *testing.T) {
	for _, test := range []struct {
		call rdmatest.Call
		err  error
	}{
		{rdmatest.CallRegMR, syscall.ENOMEM}, // as with too little memlock
		{rdmatest.CallCreateChannel, syscall.EMFILE},
		{rdmatest.CallCreateQP, syscall.EINVAL}, // as with Config that the device does not have
		{rdmatest.CallAllocPD, syscall.ENOSPC},
	} {
		t.Run(string(test.call), func(t *testing.T) {
			f := newFabric(t, rdmatest.RXE)
			l, err := Listen(t.Context(), fabricHost+":0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			// The dialling side makes one of each first, but two MRs.
			skip := 1
			if test.call == rdmatest.CallRegMR {
				skip = 2
			}
			f.Host(0).Device(0).Fail(test.call, skip, test.err)
			dialled := make(chan error, 1)
			go func() {
				_, err := Dial(t.Context(), l.Addr().String())
				dialled <- err
			}()
			_, err = l.Accept()
			var op *net.OpError
			if !errors.Is(err, test.err) || errors.Is(err, net.ErrClosed) || !errors.As(err, &op) || op.Op != "accept" || !op.Temporary() || op.Timeout() {
				t.Errorf("%v: %#v", err, op)
			}
			if err := <-dialled; !errors.Is(err, syscall.ECONNREFUSED) {
				t.Error(err)
			}
			nextPeer(t, l)
		})
	}
}

// TestAcceptPeersFault checks that errors that come from what one peer did or sent stay hidden, so
// that it can't slow down a server that waits after each error.
func TestAcceptPeersFault(t *testing.T) {
	for name, fault := range map[string]func(f *fabric){
		"ACCEPT, EINVAL":       func(f *fabric) { f.FailCM(rdmatest.CMAccept, syscall.EINVAL) }, // ib_send_cm_rep, of a peer that has gone
		"ACCEPT, ENOTCONN":     func(f *fabric) { f.FailCM(rdmatest.CMAccept, syscall.ENOTCONN) },
		"INIT_QP_ATTR, EINVAL": func(f *fabric) { f.FailCM(rdmatest.CMInitQPAttr, syscall.EINVAL) },
		"MODIFY_QP, EINVAL":    func(f *fabric) { f.Host(0).Device(0).Fail(rdmatest.CallModifyQP, 2, syscall.EINVAL) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, rdmatest.RXE)
			l, err := Listen(t.Context(), fabricHost+":0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			accepted := acceptAndClose(l)
			fault(f)
			if c, err := Dial(t.Context(), l.Addr().String()); err == nil {
				t.Error("the fault did not strike")
				_ = c.Close()
				<-accepted
				return
			}
			c, err := Dial(t.Context(), l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(<-accepted, c.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// nextPeer has a peer let in by the next call of Accept.
func nextPeer(t *testing.T, l net.Listener) {
	t.Helper()
	accepted := acceptAndClose(l)
	c, err := Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-accepted, c.Close()); err != nil {
		t.Error(err)
	}
}

// TestAcceptAbandoned checks that a program that gives up its dial during the handshake, at whatever
// moment, ends no listener.
func TestAcceptAbandoned(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		for _, command := range []rdmatest.CMCommand{rdmatest.CMConnect, rdmatest.CMAccept} {
			t.Run(kind.String()+" "+map[rdmatest.CMCommand]string{rdmatest.CMConnect: "connect", rdmatest.CMAccept: "accept"}[command], func(t *testing.T) {
				f := newFabric(t, kind)
				l, err := Listen(t.Context(), fabricHost+":0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				accepted := acceptAndClose(l)
				held := f.HoldCM(command)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-held; cancel() }()
				if _, err := Dial(ctx, l.Addr().String()); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				c, err := Dial(t.Context(), l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(<-accepted, c.Close()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestHTTPGoesOn checks that net/http's server goes on after an error that concerns one peer.
func TestHTTPGoesOn(t *testing.T) {
	f := newFabric(t, rdmatest.SIW)
	l, err := Listen(t.Context(), fabricHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	f.Host(0).Device(0).Fail(rdmatest.CallRegMR, 2, syscall.ENOMEM)
	if _, err := Dial(t.Context(), l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	transport := &http.Transport{DialContext: new(Dialer).DialContext}
	resp, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	_ = resp.Body.Close()
	transport.CloseIdleConnections()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != http.ErrServerClosed {
		t.Error(err)
	}
}
