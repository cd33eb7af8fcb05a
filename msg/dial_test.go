package msg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// Both ends of a connection are whole: messages of both kinds, one-sided operations, and
// an orderly end.
func TestConnect(t *testing.T) {
	anywhere(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		ctx := t.Context()
		for _, n := range []int{0, 64, 65, 4096} {
			want := bytes.Repeat([]byte{7}, n)
			if err := b.Send(ctx, want); err != nil {
				t.Fatal(err)
			}
			m, err := a.Recv(ctx)
			if err != nil || !bytes.Equal(m.Bytes(), want) {
				t.Fatal(n, m, err)
			}
			m.Release()
		}
		theirs, err := b.Register([]byte("their memory"), MayRead)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := a.Register(make([]byte, 12), 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Read(ctx, ours.Span(0, 12), theirs.Remote(), 0); err != nil || string(ours.Bytes()) != "their memory" {
			t.Errorf("%q, %v", ours.Bytes(), err)
		}
		bothClose(t, a, b)
		if streams != nil {
			return
		}
		if _, err := (&Dialer{Config: cfg}).Dial(ctx, a.RemoteAddr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error("nobody listens:", err)
		}
	})
}

// TestConnectWithoutDevice lets each call to the device fail once while both ends connect, and checks
// that an error is returned and nothing is leaked.
func TestConnectWithoutDevice(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		for _, call := range []rdmatest.Call{rdmatest.CallOpen, rdmatest.CallAsyncEvents, rdmatest.CallAllocPD, rdmatest.CallCreateChannel,
			rdmatest.CallEvents, rdmatest.CallCreateCQ, rdmatest.CallCreateQP, rdmatest.CallMap, rdmatest.CallRegMR, rdmatest.CallModifyQP} {
			for n, struck := 0, true; struck; n++ {
				t.Run(fmt.Sprintf("%s %s %d", kind, call, n), func(t *testing.T) {
					f := newFabric(t, kind)
					fault := f.Host(0).Device(0).Fail(call, n, syscall.EIO)
					a, b, err1, err2 := meet(t, listen(t, &small), &small)
					if struck = !fault.Stop(); struck != (err1 != nil || err2 != nil) {
						t.Errorf("it failed: %v; dial: %v, accept: %v", struck, err1, err2)
					}
					if err1 == nil && err2 == nil {
						bothClose(t, a, b)
					}
				})
			}
		}
	}
}

// Each command of the connection manager fails once.
func TestConnectRefused(t *testing.T) {
	for _, cmd := range []rdmatest.CMCommand{rdmatest.CMCreateID, rdmatest.CMResolveAddr, rdmatest.CMResolveRoute,
		rdmatest.CMQuery, rdmatest.CMInitQPAttr, rdmatest.CMConnect, rdmatest.CMAccept} {
		onFabrics(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
			l := listen(t, &cfg)
			f.FailCM(cmd, syscall.EIO)
			_, _, err1, err2 := meet(t, l, &cfg)
			if !errors.Is(err1, syscall.EIO) && !errors.Is(err2, syscall.EIO) {
				t.Errorf("command %d: dial: %v, accept: %v", cmd, err1, err2)
			}
			a, b, err1, err2 := meet(t, l, &cfg) // the listener goes on
			if err1 != nil || err2 != nil {
				t.Fatalf("after command %d: dial: %v, accept: %v", cmd, err1, err2)
			}
			bothClose(t, a, b)
		})
	}
}

// The context ends Dial in each of its steps.
func TestDialCancelled(t *testing.T) {
	for _, cmd := range []rdmatest.CMCommand{rdmatest.CMResolveAddr, rdmatest.CMResolveRoute, rdmatest.CMConnect,
		rdmatest.CMAccept} {
		onFabrics(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
			l := listen(t, &cfg)
			accepted := acceptOne(t, l)
			ctx, cancel := context.WithCancel(t.Context())
			held := f.HoldCM(cmd)
			go func() { <-held; cancel() }()
			var typed *verbs.Error
			if _, err := (&Dialer{Config: cfg}).Dial(ctx, l.Addr().String()); !errors.Is(err, context.Canceled) || !errors.As(err, &typed) || typed.Op != "dial" {
				t.Errorf("command %d: %v", cmd, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if err := <-accepted; err == nil {
				t.Errorf("command %d: accepted", cmd)
			}
		})
	}
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := (&Dialer{Config: cfg}).Dial(ctx, host+":1"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// acceptOne accepts in the background, and closes the connection.
func acceptOne(t *testing.T, l *Listener) <-chan error {
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept(t.Context())
		if err == nil {
			err = c.Close()
		}
		accepted <- err
	}()
	return accepted
}

// Over siw, Dial in a pool waits for the proof that the peer's kernel listens. The context
// ends that too.
func TestProofCancelled(t *testing.T) {
	f, cfg := newFabric(t, rdmatest.SIW), small
	cfg.Pool = newPool(t, f, 2)
	l := listen(t, &cfg)
	accepted := acceptOne(t, l)
	stuck, resume := f.Pause()
	defer resume()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-stuck; cancel() }()
	if _, err := (&Dialer{Config: cfg}).Dial(ctx, l.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-accepted
}

// Close of the listener ends a Dial that it has not let in.
func TestListenerClosedUnderDial(t *testing.T) {
	onFabrics(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		accepted := acceptOne(t, l)
		held := f.HoldCM(rdmatest.CMAccept)
		dialled := make(chan error, 1)
		go func() { _, err := (&Dialer{Config: cfg}).Dial(t.Context(), l.Addr().String()); dialled <- err }()
		<-held
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		var rejected *rdmacm.RejectedError
		if err := <-dialled; !errors.As(err, &rejected) {
			t.Error(err)
		}
		<-accepted
	})
}

// hostileHellos are greetings that no version 1 sends.
var hostileHellos = map[string]struct {
	hello []byte
	want  error
}{
	"none":            {nil, ErrVersion},
	"short":           {small.greeting(nil)[:3], ErrVersion},
	"no magic":        {small.greeting(func(b []byte) { b[0] = 'G' }), ErrVersion},
	"version 2":       {small.greeting(func(b []byte) { b[4] = 2 }), ErrVersion},
	"window 3":        {small.greeting(func(b []byte) { b[6] = 3 }), ErrProtocol},
	"window 1025":     {small.greeting(func(b []byte) { b[6], b[7] = 1, 4 }), ErrProtocol},
	"eager size 63":   {small.greeting(func(b []byte) { b[8] = 63 }), ErrProtocol},
	"eager size 2^31": {small.greeting(func(b []byte) { b[11] = 0x80 }), ErrProtocol},
	"longest 0":       {small.greeting(func(b []byte) { clear(b[12:20]) }), ErrProtocol},
	"longest 2^63":    {small.greeting(func(b []byte) { b[19] = 0x80 }), ErrProtocol},
}

func (c Config) greeting(spoil func([]byte)) []byte {
	s, err := c.shape()
	if err != nil {
		panic(err)
	}
	b := s.hello().bytes()
	if spoil != nil {
		spoil(b)
	}
	return b
}

// A listener that greets as it should not is not connected to.
func TestDialHostile(t *testing.T) {
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		for name, h := range hostileHellos {
			l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{PrivateData: h.hello}}).Listen(t.Context(), anyPort)
			if err != nil {
				t.Fatal(err)
			}
			accepted := make(chan error, 1)
			go func() {
				c, err := l.Accept(t.Context())
				if err == nil {
					err = c.Close()
				}
				accepted <- err
			}()
			if _, err := (&Dialer{Config: cfg}).Dial(t.Context(), l.Addr().String()); !errors.Is(err, h.want) {
				t.Errorf("%s: %v", name, err)
			}
			if err := errors.Join(<-accepted, l.Close()); err != nil {
				t.Error(name, err)
			}
		}
	})
}

// A peer that closes right away leaves Dial nothing to complain of.
func TestDialAndGone(t *testing.T) {
	anywhere(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		accepted := acceptOne(t, l)
		c, err := dialTo(t.Context(), l, &cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Recv(t.Context()); err != io.EOF {
			t.Error(err)
		}
		if err := errors.Join(c.Close(), <-accepted); err != nil {
			t.Error(err)
		}
	})
}
