package msg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestPoolFull checks that a full pool refuses a connection on either side. A connection that closes
// makes room.
func TestPoolFull(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			one, some := small, small
			one.Pool, some.Pool = newPool(t, f, 1), newPool(t, f, 4)
			before := f.Host(0).Device(0).Objects()
			for _, end := range [][2]*Config{{&one, &some}, {&some, &one}} {
				l := listen(t, end[0])
				a, b, err1, err2 := meet(t, l, end[1])
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
				var rejected *rdmacm.RejectedError
				if _, _, err1, err2 := meet(t, l, end[1]); end[1] == &one && !errors.Is(err1, ErrPoolFull) ||
					end[0] == &one && (!errors.Is(err2, ErrPoolFull) || !errors.As(err1, &rejected)) {
					t.Errorf("dial: %v, accept: %v", err1, err2)
				}
				if err := one.Pool.Close(); !errors.Is(err, ErrInUse) {
					t.Error(err)
				}
				bothClose(t, a, b)
				alive := f.Host(0).Device(0).Objects()
				for end := time.Now().Add(time.Minute); fmt.Sprint(alive) != fmt.Sprint(before) && time.Now().Before(end); {
					runtime.Gosched() // a dial that its context ended is freed in the background
					alive = f.Host(0).Device(0).Objects()
				}
				if fmt.Sprint(alive) != fmt.Sprint(before) {
					t.Errorf("alive are %v, before there were %v", alive, before)
				}
			}
		})
	}
}

// TestNewPoolFails lets each call to the device fail once in NewPool, and checks that nothing is
// leaked.
func TestNewPoolFails(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		for n, struck := 0, true; struck; n++ {
			t.Run(fmt.Sprintf("%s call %d", kind, n), func(t *testing.T) {
				f := newFabric(t, kind)
				d := f.Host(0).Device(0)
				dev, err := uverbs.Open(d.Name())
				if err != nil {
					t.Fatal(err)
				}
				closeLater(t, dev)
				fault := d.Fail(rdmatest.AnyCall, n, syscall.EIO)
				p, err := NewPool(dev, 2, &small)
				var typed *verbs.Error
				switch struck = !fault.Stop(); {
				case struck && err == nil: // the fault hit the background, which reports it
					if _, _, err := p.Recv(t.Context()); !errors.Is(err, syscall.EIO) {
						t.Error("the pool goes on:", err)
					}
				case struck && (!errors.Is(err, syscall.EIO) || !errors.As(err, &typed)):
					t.Error(err)
				case struck && len(f.Host(0).Device(0).Objects()) > 0:
					t.Error("left:", f.Host(0).Device(0).Objects())
				case !struck && err != nil:
					t.Fatal(err)
				}
				if err == nil {
					closeLater(t, p)
				}
			})
		}
	}
}

// TestNewPoolRefused checks that NewPool refuses bad arguments.
func TestNewPoolRefused(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	dev, err := uverbs.Open("rxe0")
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, dev)
	for name, make := range map[string]func() (*Pool, error){
		"no device":      func() (*Pool, error) { return NewPool(nil, 1, &small) },
		"no connection":  func() (*Pool, error) { return NewPool(dev, 0, &small) },
		"less than none": func() (*Pool, error) { return NewPool(dev, -1, &small) },
		"window 3":       func() (*Pool, error) { return NewPool(dev, 1, &Config{Window: 3}) },
		"too many":       func() (*Pool, error) { return NewPool(dev, maxConns+1, &small) },
	} {
		var typed *verbs.Error
		p, err := make()
		if !errors.As(err, &typed) || typed.Op != "make a pool" {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			closeLater(t, p)
		}
		if alive := f.Host(0).Device(0).Objects(); len(alive) > 0 {
			t.Errorf("%s: left: %v", name, alive)
		}
	}
}

// TestPoolOfSeveralCQs checks that there are several pairs of completion queues if one has no room
// for all connections.
func TestPoolOfSeveralCQs(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	dev, err := uverbs.Open(f.Host(0).Device(0).Name())
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, dev)
	cfg := Config{EagerSize: 64, Window: 1024}
	const fit = 29 // of these in a queue
	const conns = 2*fit + 1
	p, err := NewPool(dev, conns, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, p)
	if len(p.pairs) != 3 || p.pairs[0].room != p.pairs[1].room || p.pairs[2].room.times(fit) != p.pairs[0].room {
		t.Errorf("%+v", p.pairs)
	}
	cfg.Pool = p
	l := listen(t, &cfg)
	served := make(map[*uverbs.CQ]int)
	for range conns {
		a, b, err1, err2 := meet(t, l, &small)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { bothClose(t, a, b) })
		served[b.CM().RecvCQ()]++
		if err := a.Send(t.Context(), []byte("hello")); err != nil {
			t.Fatal(err)
		}
		m, err := b.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
	}
	if served[p.pairs[0].poller.recvCQ] != fit || served[p.pairs[1].poller.recvCQ] != fit || served[p.pairs[2].poller.recvCQ] != 1 {
		t.Errorf("%v", served)
	}
	if _, _, _, err := meet(t, l, &small); !errors.Is(err, ErrPoolFull) {
		t.Error(err)
	}
}

// TestPoolElsewhere checks that a pool on another device than that of the connection is refused.
func TestPoolElsewhere(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			newFabric(t, kind)
			there := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			dev, err := uverbs.Open(there.Host(0).Device(0).Name())
			if err != nil {
				t.Fatal(err)
			}
			closeLater(t, dev)
			p, err := NewPool(dev, 1, &small)
			if err != nil {
				t.Fatal(err)
			}
			closeLater(t, p)
			elsewhere := small
			elsewhere.Pool = p
			_, _, err1, _ := meet(t, listen(t, &small), &elsewhere)
			if !errors.Is(err1, syscall.EXDEV) {
				t.Error("dial:", err1)
			}
			_, _, _, err2 := meet(t, listen(t, &elsewhere), &small)
			if !errors.Is(err2, syscall.EXDEV) {
				t.Error("accept:", err2)
			}
		})
	}
}

// TestPoolClosed checks that a closed pool accepts no connection and no region.
func TestPoolClosed(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			cfg := small
			cfg.Pool = newPool(t, f, 2)
			r, err := cfg.Pool.Register(make([]byte, 10), MayRead)
			if err != nil {
				t.Fatal(err)
			}
			if err := cfg.Pool.Close(); err != nil {
				t.Error(err)
			}
			if err := cfg.Pool.Close(); !errors.Is(err, net.ErrClosed) {
				t.Error("closed again:", err)
			}
			if err := r.Close(); !errors.Is(err, net.ErrClosed) {
				t.Error("a region of a closed pool:", err)
			}
			if _, err := cfg.Pool.Register(make([]byte, 10), 0); !errors.Is(err, verbs.ErrClosed) && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			_, _, err1, _ := meet(t, listen(t, &small), &cfg)
			if !errors.Is(err1, verbs.ErrClosed) && !errors.Is(err1, net.ErrClosed) {
				t.Error("dial:", err1)
			}
		})
	}
}

// served returns connections to a pool whose messages Pool.Recv receives.
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

// TestPoolRecv checks that Recv of a pool returns the messages of all connections, those of each in
// order, short and long, also with several goroutines.
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
				mu.Lock() // otherwise the test would depend on the order of goroutines
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

// TestPoolRecvEnds checks that Recv of a pool returns each end once, after the messages.
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
	var typed *verbs.Error
	c, m, err = p.Recv(t.Context())
	if c == nil || m != nil || !errors.Is(err, rdmacm.ErrDisconnected) || !errors.As(err, &typed) {
		t.Error(m, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, m, err := p.Recv(ctx); c != nil || m != nil || !errors.Is(err, context.Canceled) {
		t.Error("returned again:", m, err)
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

// TestPoolRemoved checks that when the device is removed, Recv of the pool returns the end of each
// connection, and, if the driver takes the device away, an error of the pool itself. Otherwise the
// pool goes on until it is closed.
func TestPoolRemoved(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f, cfg := newFabric(t, kind), small
			dev, err := uverbs.Open(f.Host(0).Device(0).Name())
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Pool, err = NewPool(dev, 4, &small); err != nil {
				t.Fatal(err)
			}
			a, b, err1, err2 := meet(t, listen(t, &cfg), &cfg)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			type end struct {
				c   *Conn
				err error
			}
			ends := make(chan end)
			go func() {
				for {
					c, _, err := cfg.Pool.Recv(context.Background())
					if ends <- (end{c, err}); c == nil {
						return
					}
				}
			}()
			f.Host(0).Device(0).Remove()
			left := map[*Conn]bool{a: true, b: true}
			for range 2 {
				e := <-ends
				if !left[e.c] || !errors.Is(e.err, rdmacm.ErrDeviceRemoved) {
					t.Errorf("%v: %v", e.c, e.err)
				}
				delete(left, e.c)
			}
			if kind == rdmatest.SIW || kind == rdmatest.RXE {
				closeAll(t, a, b, cfg.Pool)
				if e := <-ends; e.c != nil || !errors.Is(e.err, net.ErrClosed) {
					t.Error(e)
				}
			} else {
				if e := <-ends; e.c != nil || !errors.Is(e.err, rdmacm.ErrDeviceRemoved) {
					t.Error(e)
				}
				closeAll(t, a, b, cfg.Pool)
			}
			closeAll(t, dev)
		})
	}
}

// TestReadyList checks that a connection that is removed is not in the list any more.
func TestReadyList(t *testing.T) {
	r := readyList{some: newSignal()}
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
