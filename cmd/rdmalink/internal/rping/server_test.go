package rping

import (
	"bytes"
	"context"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// serving runs a server on devices in software. It returns a client's session, and a
// function that waits for the server to end.
func serving(t *testing.T, kind rdmatest.Kind, o options) (client *session, over func() (notes string, err error)) {
	t.Helper()
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
	registered := kernel.Registered() // event channels are of the running kernel
	real := kernel.Running
	kernel.Running = registered[len(registered)-1]
	t.Cleanup(func() { kernel.Running = real })
	o.server, o.addr, o.port = true, f.Host(0).Addr(), Port
	var notes bytes.Buffer
	server := &session{Output: cli.Output{Stdout: io.Discard, Stderr: &lockedWriter{w: &notes}}, options: o}
	ctx, cancel := context.WithCancel(t.Context())
	l, err := server.listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.serveFrom(ctx, l) }()
	if !o.persistent {
		cancel = func() {}
	}
	t.Cleanup(cancel)
	return &session{Output: cli.Output{Stdout: io.Discard}, options: options{client: true, addr: o.addr, port: Port, size: 64, count: 3, validate: true}},
		func() (string, error) { cancel(); err := <-done; return notes.String(), err }
}

// stranger requests a connection, and leaves when it gets the reply.
func stranger(t *testing.T, server string) {
	t.Helper()
	c, err := newOwnConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ask(t.Context(), netip.AddrPortFrom(netip.MustParseAddr(server), Port)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// ask asks for a connection up to the server's answer.
func (c *ownConn) ask(ctx context.Context, server netip.AddrPort) error {
	if err := c.resolve(ctx, server, netip.AddrPort{}); err != nil {
		return err
	}
	if err := c.id.Connect(ctx, ownParam(c)); err != nil {
		return err
	}
	return c.want(ctx, rdmacm.EventConnectResponse)
}

// TestStranger checks that a client that does not complete its handshake does not end the
// server, and that the next one is served.
func TestStranger(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		for _, o := range []options{{}, {persistent: true}, {ownQP: true}} {
			client, over := serving(t, kind, o)
			stranger(t, client.addr)
			if err := client.ping(t.Context()); err != nil {
				t.Errorf("%v, %+v: %v", kind, o, err)
			}
			if notes, err := over(); err != nil || strings.Count(notes, "rdmalink: note: ") != 1 && !o.persistent { // which may end first
				t.Errorf("%v, %+v: %v, %q", kind, o, err, notes)
			}
		}
	}
}

// crowd is a listener with more clients than are served. None of them connects.
type crowd struct {
	left, rejected int
	closed         bool
}

func (c *crowd) Next(ctx context.Context) (*request, error) {
	if c.left == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.left--
	return &request{
		from:   netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(c.left >> 8), byte(c.left)}), 1),
		accept: func(ctx context.Context, _ *end) error { <-ctx.Done(); return ctx.Err() },
		reject: func() error { c.rejected++; return nil },
	}, nil
}

func (c *crowd) Close() error { c.closed = true; return nil }

// TestCrowd checks that clients above the limit are refused, and that those that do not
// connect in time are dropped.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes bytes.Buffer
		r := &session{Output: cli.Output{Stderr: &lockedWriter{w: &notes}}, options: options{server: true, persistent: true}}
		ctx, cancel := context.WithCancel(t.Context())
		c := &crowd{left: mostClients + 3}
		done := make(chan error)
		go func() { done <- r.serveFrom(ctx, c) }()
		time.Sleep(peer.HandshakeLimit + time.Second)
		cancel()
		if err := <-done; err != nil || c.rejected != 3 || !c.closed {
			t.Error(err, c.rejected, c.closed)
		}
		if late := strings.Count(notes.String(), "deadline exceeded"); late != mostClients {
			t.Errorf("%d of %d are reported", late, mostClients)
		}
	})
}

// lockedWriter is written to by several goroutines, as standard error is.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
