package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

func TestOptions(t *testing.T) {
	want := options{from: endpoint{true, ":7471"}, to: endpoint{false, "[::1]:80"}, limit: 5, verbose: true}
	got, err := parse(strings.Fields("rdma::7471 -v tcp:[::1]:80 -W 5"))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{}, endpoint{})); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for line, want := range map[string]string{
		"":                 "expected LISTEN and CONNECT",
		"tcp::1":           "expected LISTEN and CONNECT",
		"tcp::1 tcp::2 x":  `"x" is one word too many`,
		"udp::1 tcp::2":    `"udp::1": want tcp:HOST:PORT or rdma:HOST:PORT`,
		"tcp::1 rdma:host": `"rdma:host": address host: missing port in address`,
		"tcp::1 tcp::2 -W": "-W",
	} {
		var usage cli.UsageError
		if _, err := parse(strings.Fields(line)); !errors.As(err, &usage) || !strings.Contains(usage.Text, want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// started is a proxy between TCP and TCP that runs until stop.
type started struct {
	address   string
	out, errs bytes.Buffer // to read after stop
	stop      func()
}

func start(t *testing.T, to string, o options) *started {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &started{address: l.Addr().String()}
	o.from, o.to, o.limit = endpoint{address: s.address}, endpoint{address: to}, 60
	p := &proxy{Output: cli.Output{Stdout: &s.out, Stderr: &s.errs, JSON: o.asJSON}, options: o}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.serve(ctx, l) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

// server accepts one connection and answers with all that it received, in capitals, when
// that has ended.
func server(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c)
			_, _ = c.Write(bytes.ToUpper(b))
			c.Close()
		}
	}()
	return l.Addr().String()
}

// Data passes both ways, and the end of one direction before the other's data.
func TestPass(t *testing.T) {
	s := start(t, server(t), options{asJSON: true})
	c := dial(t, s.address)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "HELLO" {
		t.Errorf("%q, %v", b, err)
	}
	s.stop()
	var got passed
	if err := json.Unmarshal(s.out.Bytes(), &got); err != nil || got.Sent != 5 || got.Got != 5 || got.Error != "" || got.Client != c.LocalAddr().String() {
		t.Errorf("%s, %v", s.out.String(), err)
	}
}

// A connection that leads nowhere is closed and told of; others go on.
func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	s := start(t, nobody, options{})
	for range 2 {
		if b, err := io.ReadAll(dial(t, s.address)); len(b) != 0 {
			t.Errorf("%q, %v", b, err)
		}
	}
	s.stop()
	if n := strings.Count(s.errs.String(), "connection refused"); n != 2 || s.out.Len() != 0 {
		t.Errorf("%q, %q", s.out.String(), s.errs.String())
	}
}

// When the proxy stops its connections end, without a complaint.
func TestStop(t *testing.T) {
	s := start(t, server(t), options{verbose: true})
	c := dial(t, s.address)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	accepted := dial(t, s.address) // by now the first one's is under way, or about to be
	s.stop()
	for _, c := range []net.Conn{c, accepted} {
		if b, _ := io.ReadAll(c); len(b) != 0 {
			t.Errorf("%q", b)
		}
	}
	if s.errs.Len() != 0 {
		t.Error(s.errs.String())
	}
}
