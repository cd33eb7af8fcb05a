package oob

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

func (w *world) listen(cfg *Config) (*Listener, *conntest.Pipes) {
	w.t.Helper()
	p := conntest.NewPipes()
	l, err := Listen(p, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	closeLater(w.t, l)
	return l, p
}

// TestListener accepts several peers, and ends.
func TestListener(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	l, p := w.listen(w.config(1, verbs.QPTypeRC))
	for range 3 {
		dialled := make(chan outcome, 1)
		go func() {
			c, err := Dial(t.Context(), p.Dial(), w.config(0, verbs.QPTypeRC))
			dialled <- outcome{c, err}
		}()
		b, err := l.Accept(t.Context())
		a := <-dialled
		if err := errors.Join(err, a.err); err != nil {
			t.Fatal(err)
		}
		checkConnected(t, a.c, b)
		if err := errors.Join(a.c.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Accept(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	waiting, err := Dial(t.Context(), p.Dial(), w.config(0, verbs.QPTypeRC)) // nobody accepts it
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-waiting.Done()
	if err := errors.Join(waiting.Close()); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

// TestStrangePeers checks that each strange peer causes one clear error of Accept, leaves nothing,
// and keeps nobody out.
func TestStrangePeers(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	l, p := w.listen(w.config(1, verbs.QPTypeRC))
	half, err := Offer(w.config(0, verbs.QPTypeRC))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, half)
	offer := half.Bytes()
	parsed, err := parse(offer)
	if err != nil {
		t.Fatal(err)
	}
	mtu := *parsed
	mtu.endpoint.MTU = 9
	qpn := *parsed
	qpn.endpoint.QPN = 0
	transport := *parsed
	transport.endpoint.Type = verbs.QPTypeUC
	later := append([]byte(nil), offer...)
	later[4]++
	// after says what the peer sends once it has read the answer.
	says := func(first []byte, after ...[]byte) func(net.Conn) {
		return func(s net.Conn) {
			_, _ = s.Write(first)
			for _, b := range after {
				_, _ = readFrame(s)
				_, _ = s.Write(b)
			}
		}
	}
	for name, peer := range map[string]struct {
		does func(net.Conn)
		want error
		text string
	}{
		"nothing":       {says(nil), rdmacm.ErrDisconnected, "EOF"},
		"half a header": {says(offer[:5]), ErrProtocol, "after 5 bytes"},
		"half a hello":  {says(offer[:20]), ErrProtocol, "after 20 bytes"},
		"junk":          {says([]byte(strings.Repeat("junk", 16<<10))), ErrVersion, `"junk"`},
		"HTTP":          {says([]byte("GET / HTTP/1.1\r\n\r\n")), ErrVersion, `"GET "`},
		"version":       {says(later), ErrVersion, "version 2"},
		"MTU":           {says(mtu.bytes()), ErrProtocol, "MTU"},
		"QPN 0":         {says(qpn.bytes()), ErrProtocol, "number 0x0"},
		"transport":     {says(transport.bytes()), ErrMismatch, "UC at the peer"},
		"bye":           {says((&frame{kind: kindBye}).bytes()), ErrProtocol, "bye, but it should have sent an offer"},
		"refusal":       {says((&frame{kind: kindRefuse, reason: "\x1b]0;"}).bytes()), ErrRefused, `\x1b`},
		"twice":         {says(offer, offer), ErrProtocol, "offer, but it should have sent a ready"},
		"old ready":     {says(offer, (&frame{kind: kindReady, endpoint: Endpoint{answers: 1}}).bytes()), ErrStale, ""},
		"gone":          {says(offer, nil), rdmacm.ErrDisconnected, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			go func() {
				s := p.Dial()
				peer.does(s)
				_ = s.Close()
			}()
			c, err := l.Accept(t.Context())
			var e *verbs.Error
			if !errors.Is(err, peer.want) || !strings.Contains(err.Error(), peer.text) || !errors.As(err, &e) || !e.Temporary() {
				t.Errorf("%v, %v", c, err)
			}
			if strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("%q", err)
			}
			if left := w.fabric.Host(1).Device(0).Objects(); len(left) != 1 { // the protection domain
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestClosedSetUp checks that an attempt whose Conn or stream this end closes fails at once, and that its error concerns
// one peer.
func TestClosedSetUp(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	prepared := make(chan *Conn, 1)
	for name, cfg := range map[string]*Config{
		"Conn":   {PD: w.pds[1], Timeout: time.Hour, Prepare: func(c *Conn) error { prepared <- c; return nil }},
		"stream": {PD: w.pds[1], Authorize: func(context.Context, io.ReadWriteCloser, *Endpoint) error { return net.ErrClosed }},
	} {
		l, p := w.listen(cfg)
		half, err := Offer(w.config(0, verbs.QPTypeRC))
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, half)
		s := p.Dial()
		if _, err := s.Write(half.Bytes()); err != nil {
			t.Fatal(err)
		}
		if cfg.Prepare != nil {
			c := <-prepared
			if _, err := readFrame(s); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		go func() { _, _ = io.Copy(io.Discard, s) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = l.Accept(ctx)
		var e *verbs.Error
		if !errors.As(err, &e) || !e.Temporary() || errors.Is(err, net.ErrClosed) || ctx.Err() != nil || !strings.Contains(err.Error(), net.ErrClosed.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStaleAnswer checks that an answer to an earlier attempt is refused.
func TestStaleAnswer(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	var halves [2]*Half
	for i := range halves {
		var err error
		if halves[i], err = Offer(w.config(0, verbs.QPTypeRC)); err != nil {
			t.Fatal(err)
		}
	}
	b, answer, err := Answer(t.Context(), halves[0].Bytes(), w.config(1, verbs.QPTypeRC))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, b)
	if _, err := halves[1].Connect(answer); !errors.Is(err, ErrStale) {
		t.Error(err)
	}
	a, err := halves[0].Connect(answer)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, a)
	checkConnected(t, a, b)
	for _, bytes := range [][]byte{nil, answer, []byte("junk")} {
		if _, _, err := Answer(t.Context(), bytes, w.config(1, verbs.QPTypeRC)); !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrVersion) {
			t.Errorf("%.9q: %v", bytes, err)
		}
	}
	if err := halves[0].Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestHalfOpen checks that a thousand peers that connect and say nothing keep nobody out, and leave
// nothing.
func TestHalfOpen(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	l, p := w.listen(w.config(1, verbs.QPTypeRC))
	var silent []net.Conn
	for range 1000 {
		silent = append(silent, p.Dial())
	}
	dialled := make(chan outcome, 1)
	go func() {
		c, err := Dial(t.Context(), p.Dial(), w.config(0, verbs.QPTypeRC))
		dialled <- outcome{c, err}
	}()
	var b *Conn
	for b == nil {
		var err error
		if b, err = l.Accept(t.Context()); err != nil && !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
	}
	a := <-dialled
	if a.err != nil {
		t.Fatal(a.err)
	}
	l.mu.Lock()
	if n := len(l.pending); n > MaxPending {
		t.Errorf("%d attempts at a time", n)
	}
	l.mu.Unlock()
	if err := errors.Join(a.c.Close(), b.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	for _, s := range silent {
		_, _ = io.Copy(io.Discard, s) // all have been closed
	}
}

// TestHalfOffered checks that peers that send an offer, for which a queue pair is created, and then
// nothing leave nothing either.
func TestHalfOffered(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	l, p := w.listen(&Config{PD: w.pds[1]})
	half, err := Offer(&Config{PD: w.pds[0]})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, half)
	for range MaxPending + 20 {
		s := p.Dial()
		if _, err := s.Write(half.Bytes()); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, s) }()
	}
	l.mu.Lock()
	if n := len(l.pending); n > MaxPending {
		t.Errorf("%d attempts at a time", n)
	}
	l.mu.Unlock()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if left := w.fabric.Host(1).Device(0).Objects(); len(left) != 1 { // the protection domain
		t.Errorf("left: %q", left)
	}
}

// TestFull checks that a backlog full of connections refuses the newest peer, and only so many at a time.
func TestFull(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	l, p := w.listen(&Config{PD: w.pds[1], Timeout: time.Minute})
	var all []*Conn
	for range MaxPending {
		c, err := Dial(t.Context(), p.Dial(), &Config{PD: w.pds[0], Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	waitUntil(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, a := range l.pending {
			if a.conn == nil {
				return false
			}
		}
		return len(l.pending) == MaxPending
	})
	if _, err := Dial(t.Context(), p.Dial(), &Config{PD: w.pds[0], Timeout: time.Minute}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), ErrBusy.Error()) {
		t.Error(err)
	}
	for range 2 * MaxPending { // which do not read why they are refused
		_ = p.Dial()
	}
	l.mu.Lock()
	if n := l.refused; n > MaxPending {
		t.Errorf("%d refusals at a time", n)
	}
	l.mu.Unlock()
	for range MaxPending {
		c, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, c)
	}
	for _, c := range all {
		closeLater(t, c)
	}
}

// TestClosedBeforeAccept checks that Accept returns a connection that the peer has closed, and that the peer's message
// can still be received.
func TestClosedBeforeAccept(t *testing.T) {
	w := newWorld(t, devices["rxe"])
	l, p := w.listen(w.config(1, verbs.QPTypeRC))
	a, err := Dial(t.Context(), p.Dial(), w.config(0, verbs.QPTypeRC))
	if err != nil {
		t.Fatal(err)
	}
	post(t, a, []byte("the last word"))
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	var waiting *Conn
	waitUntil(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.pending) == 1 {
			waiting = l.pending[0].conn
		}
		return waiting != nil
	})
	<-waiting.Done()
	b, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, b)
	if err := b.Err(); !errors.Is(err, rdmacm.ErrDisconnected) {
		t.Error(err)
	}
	receive(t, b, []byte("the last word"))
	var wcs [1]verbs.WC
	if _, err := b.RecvCQ().Wait(t.Context(), wcs[:]); !errors.Is(err, rdmacm.ErrDisconnected) {
		t.Error(err)
	}
}

// waitUntil waits until something holds.
func waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}
