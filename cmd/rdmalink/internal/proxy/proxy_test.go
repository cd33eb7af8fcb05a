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
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

func TestOptions(t *testing.T) {
	want := options{from: endpoint{true, ":7471"}, to: endpoint{false, "[::1]:80"}, limit: 5, idle: 0, most: 3, verbose: true}
	got, err := parse(strings.Fields("rdma::7471 -v tcp:[::1]:80 -W 5 --idle=0 -n 3"))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{}, endpoint{})); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for line, want := range map[string]string{
		"":                 "expected LISTEN and CONNECT",
		"tcp::1":           "expected LISTEN and CONNECT",
		"tcp::1 tcp::2 x":  `unexpected argument "x"`,
		"udp::1 tcp::2":    `"udp::1": want tcp:HOST:PORT or rdma:HOST:PORT`,
		"tcp::1 rdma:host": `"rdma:host": address host: missing port in address`,
		"tcp::1 tcp::2 -W": "-W",
		"--bogus":          "expected one of --timeout, --idle, --connections, --verbose, --json",
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
	o.from, o.to, o.limit, o.most = endpoint{address: s.address}, endpoint{address: to}, 60, 9
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

// A connection whose destination can't be reached is closed and reported; others continue.
func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, l.Addr().String(), options{})
	l.Close() // after the proxy has its own port
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

// duplex is an end of a connection in memory whose directions end apart from each other.
type duplex struct {
	net.Conn // that it reads from
	to       net.Conn
}

func newDuplex() (a, b duplex) {
	a1, b1 := net.Pipe()
	a2, b2 := net.Pipe()
	return duplex{a1, a2}, duplex{b2, b1}
}

func (d duplex) Write(b []byte) (int, error) { return d.to.Write(b) }
func (d duplex) CloseWrite() error           { return d.to.Close() }
func (d duplex) CloseRead() error            { return d.Conn.Close() }
func (d duplex) Close() error                { return errors.Join(d.Conn.Close(), d.to.Close()) }
func (d duplex) SetDeadline(t time.Time) error {
	return errors.Join(d.Conn.SetReadDeadline(t), d.to.SetWriteDeadline(t))
}

// exchanging passes a connection on, between the client's end and the server's. It returns
// how that went when it is over.
func exchanging(idle int) (client, server duplex, over func() (time.Duration, error)) {
	client, in := newDuplex()
	out, server := newDuplex()
	start := time.Now()
	took, failed := make(chan time.Duration, 1), make(chan error, 1)
	go func() {
		err := (&proxy{options: options{idle: idle}}).exchange(context.Background(), in, out, new(passed))
		took <- time.Since(start)
		failed <- err
		in.Close()
		out.Close()
	}()
	return client, server, func() (time.Duration, error) { return <-took, <-failed }
}

// TestEarlyAnswer checks that the answer of a server that answers and closes before it has
// read everything is complete, and that the client may send its whole request first.
func TestEarlyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, over := exchanging(600)
		answer := bytes.Repeat([]byte("answer"), 1<<16)
		go func() {
			_, _ = io.ReadFull(server, make([]byte, 10))
			_ = server.CloseRead()
			time.Sleep(time.Second) // by now the proxy's write has failed
			_, _ = server.Write(answer)
			_ = server.CloseWrite()
		}()
		if _, err := client.Write(make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
		got, err := io.ReadAll(client)
		if err != nil || !bytes.Equal(got, answer) {
			t.Errorf("%d bytes of %d, %v", len(got), len(answer), err)
		}
		_ = client.Close()
		if took, err := over(); !errors.Is(err, io.ErrClosedPipe) || took != time.Second {
			t.Error(took, err)
		}
	})
}

// TestDrainIsBounded checks that a peer that neither reads nor sends nor closes can't keep a
// failed connection open longer than the limit, regardless of the other end.
func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, over := exchanging(600)
		defer server.Close()
		_ = server.CloseRead()
		var sending sync.WaitGroup
		sending.Go(func() {
			for err := error(nil); err == nil; time.Sleep(time.Second + 1) {
				_, err = client.Write([]byte("more"))
			}
		})
		time.Sleep(3 * time.Second)
		go func() { _, _ = server.Write([]byte("answer")) }()
		if got, err := io.ReadFull(client, make([]byte, 6)); err != nil {
			t.Error(got, err)
		}
		if took, err := over(); !errors.Is(err, io.ErrClosedPipe) || took != 3*time.Second+drainLimit {
			t.Error(took, err)
		}
		sending.Wait()
	})
}

// TestIdle checks that a connection ends when nothing has passed for the limit, and not
// before.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, over := exchanging(600)
		go func() { _, _ = io.Copy(io.Discard, client) }()
		for range 3 {
			time.Sleep(500 * time.Second)
			if _, err := server.Write([]byte("tick")); err != nil {
				t.Error(err)
			}
		}
		if took, err := over(); took != 2100*time.Second || err == nil || err.Error() != "nothing passed in 10m0s" {
			t.Error(took, err)
		}
		client.Close()
		server.Close()
		client, server, over = exchanging(0)
		time.Sleep(1e6 * time.Second)
		client.Close()
		server.Close()
		if took, err := over(); took != 1e6*time.Second || err != nil {
			t.Error(took, err)
		}
	})
}
