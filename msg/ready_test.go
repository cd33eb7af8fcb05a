package msg

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// served are connections to a pool whose messages its Recv gets.
func served(t *testing.T, n int) (p *Pool, clients []*Conn) {
	f := newFabric(t, rdmatest.RXE)
	cfg := small
	cfg.Pool = newPool(t, f, n)
	l := listen(t, &cfg)
	for range n {
		a, b, err1, err2 := meet(t, l, &small)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, a)
		t.Cleanup(func() { bothFree(t, a, b) })
	}
	return cfg.Pool, clients
}

// A pool's Recv gets the messages of all connections, those of each in order, short and
// long, also with several goroutines.
func TestPoolRecv(t *testing.T) {
	const count = 30
	p, clients := served(t, 5)
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for n := range count {
				if err := c.Send(t.Context(), bytes.Repeat([]byte{byte(i)}, 1+n*10)); err != nil { // the last ones are long
					t.Error(err)
				}
			}
		})
	}
	var mu sync.Mutex
	next := make(map[*Conn]int)
	for range 3 {
		all.Go(func() {
			for range count * len(clients) / 3 {
				mu.Lock() // else the order in which goroutines go on would be what is tested
				c, m, err := p.Recv(t.Context())
				if err != nil || len(m.Bytes()) != 1+next[c]*10 {
					t.Error(m, err)
				}
				next[c]++
				mu.Unlock()
				m.Release()
			}
		})
	}
	all.Wait()
	if len(next) != len(clients) {
		t.Errorf("of %d connections", len(next))
	}
}

// It tells of each end once, behind the messages.
func TestPoolRecvEnds(t *testing.T) {
	p, clients := served(t, 2)
	if err := clients[0].Send(t.Context(), []byte("last words")); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- clients[0].Close() }()
	c, m, err := p.Recv(t.Context())
	if err != nil || string(m.Bytes()) != "last words" {
		t.Fatal(m, err)
	}
	m.Release()
	ended, m, err := p.Recv(t.Context())
	if ended != c || m != nil || err != io.EOF {
		t.Error(m, err)
	}
	if err := errors.Join(<-closed, c.Close()); err != nil {
		t.Error(err)
	}
	if err := clients[1].CM().Close(); err != nil { // as when the peer dies
		t.Error(err)
	}
	var typed *Error
	c, m, err = p.Recv(t.Context())
	if c == nil || m != nil || !errors.Is(err, rdmacm.ErrDisconnected) || !errors.As(err, &typed) {
		t.Error(m, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, m, err := p.Recv(ctx); c != nil || m != nil || !errors.Is(err, context.Canceled) {
		t.Error("told again:", m, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	waits := make(chan error, 1)
	go func() { _, _, err := p.Recv(t.Context()); waits <- err }()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// What is ready and goes is off the list.
func TestReadiness(t *testing.T) {
	r := readiness{some: newSignal()}
	var c [4]Conn
	for _, i := range []int{0, 1, 2, 3, 1} {
		r.push(&c[i])
	}
	r.remove(&c[1])
	r.remove(&c[1])
	r.remove(&c[3])
	r.push(&c[1])
	for _, want := range []*Conn{&c[0], &c[2], &c[1], nil} {
		if got := r.pop(); got != want {
			t.Errorf("%p, want %p", got, want)
		}
	}
	if r.first != nil || r.last != nil {
		t.Error("something is left")
	}
}
