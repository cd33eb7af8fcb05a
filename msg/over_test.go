package msg

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestWithoutConnectionManager sends messages where the kernel offers what gVisor's proxy passes on: neither completion
// channels nor SRQs nor a connection manager.
func TestWithoutConnectionManager(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		for _, pooled := range []bool{false, true} {
			f := newFabric(t, kind)
			d := f.Host(0).Device(0)
			struck := conntest.LikeGVisor(f, d)
			over := &oob.Config{PD: conntest.OpenPD(t, d)}
			l := conntest.NewPipes()
			cfg := small
			if pooled {
				cfg.Pool = newPool(t, f, 4)
			}
			ln, err := (&ListenConfig{Config: cfg}).ListenOver(l, over)
			if err != nil {
				t.Fatal(err)
			}
			closeLater(t, ln)
			accepted := make(chan *Conn, 1)
			go func() {
				c, err := ln.Accept(t.Context())
				if err != nil {
					t.Error(err)
				}
				accepted <- c
			}()
			a, err := (&Dialer{Config: cfg}).DialOver(t.Context(), l.Dial(), over)
			if err != nil {
				t.Fatal(err)
			}
			b := <-accepted
			if a.CM() != nil || b.CM() != nil {
				t.Error("a connection manager")
			}
			for n := 1; n <= small.MaxMessage; n *= 8 {
				text := bytes.Repeat([]byte("x"), n)
				for _, ends := range [][2]*Conn{{a, b}, {b, a}} {
					sent := make(chan error, 1)
					go func() { sent <- ends[0].Send(t.Context(), text) }()
					m, err := ends[1].Recv(t.Context())
					if err := errors.Join(err, <-sent); err != nil || !bytes.Equal(m.Bytes(), text) {
						t.Fatal(n, err)
					}
					m.Release()
				}
			}
			bothClose(t, a, b)
			if n, want := struck(), map[bool]int{false: 2, true: 1}[pooled]; n != want { // for completion channels
				t.Errorf("%v: %d calls were refused, want %d", kind, n, want)
			}
		}
	}
}

// TestClosedBeforeAcceptOver checks that a pool delivers a connection before Accept returns it, and that nothing is left
// of a connection that both ends have closed meanwhile. Accept returns it all the same, unless its set-up was under way.
func TestClosedBeforeAcceptOver(t *testing.T) {
	f, cfg := newFabric(t, rdmatest.RXE), small
	over := &oob.Config{PD: conntest.OpenPD(t, f.Host(0).Device(0))}
	cfg.Pool = newPool(t, f, 4)
	l := conntest.NewPipes()
	ln, err := (&ListenConfig{Config: cfg}).ListenOver(l, over)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, ln)
	a, err := (&Dialer{Config: small}).DialOver(t.Context(), l.Dial(), over)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.Send(t.Context(), []byte("the last word")), a.Close()); err != nil {
		t.Error(err)
	}
	b, m, err := cfg.Pool.Recv(t.Context())
	if err != nil || string(m.Bytes()) != "the last word" {
		t.Fatal(m, err)
	}
	m.Release()
	if c, _, err := cfg.Pool.Recv(t.Context()); c != b || err != io.EOF {
		t.Fatal(c, err)
	}
	bothClose(t, a, b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var e *verbs.Error
	if c, err := ln.Accept(ctx); c != b && (!errors.As(err, &e) || !e.Temporary() || ctx.Err() != nil || errors.Is(err, net.ErrClosed)) {
		t.Errorf("%v, %v, want the connection that the pool has delivered", c, err)
	}
	if left := len(ln.pending.made); left > 0 {
		t.Errorf("%d connections are left", left)
	}
}

// TestHostileOver checks that a peer on a stream that greets as it should not is refused and
// reported, and the listener goes on.
func TestHostileOver(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	over := &oob.Config{PD: conntest.OpenPD(t, f.Host(0).Device(0))}
	l := conntest.NewPipes()
	ln, err := (&ListenConfig{Config: small}).ListenOver(l, over)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, ln)
	for name, h := range hostileHellos {
		accepted := acceptOne(t, ln)
		if _, err := oob.Dial(t.Context(), l.Dial(), &oob.Config{PD: over.PD, PrivateData: h.hello}); !errors.Is(err, oob.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
		var typed *verbs.Error
		if err := <-accepted; !errors.Is(err, h.want) || !errors.As(err, &typed) || typed.Op != "accept" || !typed.Temporary() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if _, err := ln.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestRefusedOver checks that bad options are refused at once, and the stream is closed.
func TestRefusedOver(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	over := &oob.Config{PD: conntest.OpenPD(t, f.Host(0).Device(0))}
	for name, c := range map[string]struct {
		cfg  Config
		over *oob.Config
		want string
	}{
		"no protection domain": {small, nil, "Config.PD is nil"},
		"window":               {Config{Window: 3}, over, "Window"},
		"transport":            {Config{EagerSize: 64, TransportOptions: retries(-1)}, over, "RetryCount"},
	} {
		near, far := net.Pipe()
		_, err := (&Dialer{Config: c.cfg}).DialOver(t.Context(), near, c.over)
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := far.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: the stream is open: %v", name, err)
		}
		l := conntest.NewPipes()
		if _, err := (&ListenConfig{Config: c.cfg}).ListenOver(l, c.over); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: it listens: %v", name, err)
		}
	}
}

func retries(n int) rdmacm.TransportOptions { return rdmacm.TransportOptions{RetryCount: n} }
