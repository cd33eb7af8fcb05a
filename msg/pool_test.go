package msg

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// A pool that is full refuses a connection on either side. One that closes makes room.
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
				if alive := f.Host(0).Device(0).Objects(); fmt.Sprint(alive) != fmt.Sprint(before) {
					t.Errorf("alive are %v, before there were %v", alive, before)
				}
			}
		})
	}
}

// Each call to the device fails once while a pool is made. It leaves nothing.
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
				var typed *Error
				switch struck = !fault.Stop(); {
				case struck && err == nil: // it struck the pool's own goroutine, which tells
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

// What a pool can't be is refused.
func TestNewPoolRefused(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	dev, err := uverbs.Open("rxe0")
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, dev)
	for name, make := range map[string]func() (*Pool, error){
		"no connection":  func() (*Pool, error) { return NewPool(dev, 0, &small) },
		"less than none": func() (*Pool, error) { return NewPool(dev, -1, &small) },
		"window 3":       func() (*Pool, error) { return NewPool(dev, 1, &Config{Window: 3}) },
		"too many":       func() (*Pool, error) { return NewPool(dev, maxConns+1, &small) },
	} {
		var typed *Error
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

// Where a completion queue has not room for all connections there are several.
func TestPoolOfSeveralCQs(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	dev, err := uverbs.Open(f.Host(0).Device(0).Name())
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, dev)
	cfg := Config{EagerSize: 64, Window: 1024}
	const fit = 30 // of these in a queue
	const conns = 2*fit + 1
	p, err := NewPool(dev, conns, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, p)
	if len(p.seats) != 3 || p.seats[0].room != p.seats[1].room || p.seats[2].room.times(fit) != p.seats[0].room {
		t.Errorf("%+v", p.seats)
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
	if served[p.seats[0].poller.recvCQ] != fit || served[p.seats[1].poller.recvCQ] != fit || served[p.seats[2].poller.recvCQ] != 1 {
		t.Errorf("%v", served)
	}
	if _, _, _, err := meet(t, l, &small); !errors.Is(err, ErrPoolFull) {
		t.Error(err)
	}
}

// A pool of another device than the one that a connection runs over is refused.
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

// A closed pool takes no connection and no region.
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
