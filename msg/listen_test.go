package msg

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// A peer that greets as it should not is rejected and reported, and the listener goes on.
func TestAcceptHostile(t *testing.T) {
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		for name, h := range hostileHellos {
			accepted := acceptOne(t, l)
			var rejected *rdmacm.RejectedError
			_, err := (&rdmacm.Dialer{Config: rdmacm.Config{PrivateData: h.hello}}).Dial(t.Context(), l.Addr().String())
			if !errors.As(err, &rejected) {
				t.Errorf("%s: %v", name, err)
			}
			var typed *verbs.Error
			if err := <-accepted; !errors.Is(err, h.want) || !errors.As(err, &typed) || typed.Op != "accept" || !typed.Temporary() {
				t.Errorf("%s: %v", name, err)
			}
		}
		a, b, err1, err2 := meet(t, l, &cfg)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		bothClose(t, a, b)
	})
}

// The context ends Accept, and Close does. A peer that waits is rejected then.
func TestAcceptEnds(t *testing.T) {
	onFabrics(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		ctx, cancel := context.WithCancel(t.Context())
		accepted := make(chan error, 1)
		go func() { _, err := l.Accept(ctx); accepted <- err }()
		cancel()
		var typed *verbs.Error
		if err := <-accepted; !errors.Is(err, context.Canceled) || errors.As(err, &typed) && typed.Temporary() {
			t.Error(err)
		}
		asked := f.HoldCM(rdmatest.CMAccept)
		go func() { _, err := l.Accept(t.Context()); accepted <- err }()
		dialled := make(chan error, 1)
		go func() { _, err := (&Dialer{Config: cfg}).Dial(t.Context(), l.Addr().String()); dialled <- err }()
		<-asked // a peer is half-way in
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-accepted; !errors.Is(err, net.ErrClosed) || errors.As(err, &typed) && typed.Temporary() {
				t.Error(err)
			}
			go func() { _, err := l.Accept(t.Context()); accepted <- err }()
		}
		<-accepted
		var rejected *rdmacm.RejectedError
		if err := <-dialled; !errors.As(err, &rejected) {
			t.Error(err)
		}
	})
}

// A peer that goes without a word has ended the connection, also before the first one.
func TestAcceptGone(t *testing.T) {
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		accepted := make(chan *Conn, 1)
		go func() {
			c, err := l.Accept(t.Context())
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		c, err := (&rdmacm.Dialer{Config: rdmacm.Config{PrivateData: cfg.greeting(nil)}}).Dial(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b := <-accepted
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := b.Recv(t.Context()); !errors.Is(err, rdmacm.ErrDisconnected) {
			t.Error(err)
		}
		if err := b.Send(t.Context(), nil); !errors.Is(err, rdmacm.ErrDisconnected) {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRefused checks that bad configurations and addresses are refused before anything is created.
func TestRefused(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	for name, cfg := range map[string]Config{
		"eager size 63": {EagerSize: 63}, "eager size 2^21": {EagerSize: 1 << 21}, "eager size -1": {EagerSize: -1},
		"window 3": {Window: 3}, "window 1025": {Window: 1025}, "longest 63": {MaxMessage: 63}, "longest 2^30+1": {MaxMessage: maxLongest + 1},
	} {
		var typed *verbs.Error
		if _, err := (&Dialer{Config: cfg}).Dial(t.Context(), anyPort); !errors.As(err, &typed) || typed.Op != "dial" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := (&ListenConfig{Config: cfg}).Listen(t.Context(), anyPort); !errors.As(err, &typed) || typed.Op != "listen" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Listen(t.Context(), "no address"); err == nil {
		t.Error("listens at no address")
	}
	if _, err := (&ListenConfig{Backlog: -1}).Listen(t.Context(), anyPort); err == nil {
		t.Error("listens with a negative backlog")
	}
	if _, err := Dial(t.Context(), "no address"); err == nil {
		t.Error("dials no address")
	}
}

// A second Close says that the listener is closed.
func TestListenerClosedTwice(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	l := listen(t, &small)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestListenerShutdown checks that Shutdown of a Listener waits until the accepted connections are
// closed and have delivered everything.
func TestListenerShutdown(t *testing.T) {
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		a, b, err1, err2 := meet(t, l, &cfg)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		var typed *verbs.Error
		if err := l.Shutdown(canceled); !errors.Is(err, context.Canceled) || !errors.As(err, &typed) || typed.Op != "shut down listener" {
			t.Error(err)
		}
		if _, err := l.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if err := b.Send(t.Context(), []byte("last")); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		done := make(chan error, 1)
		go func() { done <- l.Shutdown(t.Context()) }()
		m, err := a.Recv(t.Context())
		if err != nil || string(m.Bytes()) != "last" {
			t.Fatal(err)
		}
		m.Release()
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil || !isClosed(b.closed) {
			t.Error(err)
		}
		if err := l.Shutdown(canceled); err != nil {
			t.Error(err)
		}
	})
	if err := (*Listener)(nil).Shutdown(t.Context()); err == nil {
		t.Error("no error for a nil Listener")
	}
}
