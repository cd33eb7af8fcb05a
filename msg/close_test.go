package msg

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestCloseWithoutAnswer checks that Close returns before the peer has answered, and ends all calls.
func TestCloseWithoutAnswer(t *testing.T) {
	anywhere(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		theirs, ours := readable(t, a, b)
		stuck, resume := f.Pause()
		defer resume()
		read, received := make(chan error, 1), make(chan error, 1)
		go func() { read <- a.Read(t.Context(), ours.Span(0, 8), theirs.Remote(), 0) }()
		go func() { _, err := a.Recv(t.Context()); received <- err }()
		<-stuck
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if isClosed(a.closed) {
			t.Error("nothing was left to the background")
		}
		for _, ends := range []chan error{read, received} {
			if err := <-ends; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error("closed again:", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// silent returns a pair in a bubble whose peer never answers.
func silent(t *testing.T, test func(t *testing.T, a *Conn)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testShape(t))
		w.open()
		test(t, w.ends[0].conn)
	})
}

// TestCloseLimits checks that the background and Shutdown wait for 10 seconds, or as long as
// SetLinger sets. With a positive number Close waits too.
func TestCloseLimits(t *testing.T) {
	silent(t, func(t *testing.T, a *Conn) {
		begun := time.Now()
		if err := a.Close(); err != nil || time.Since(begun) > 0 {
			t.Error(err, "after", time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var e *verbs.Error
		if err := a.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || !e.Timeout() {
			t.Error(err)
		}
		if err := a.Shutdown(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != closeTimeout {
			t.Error(err, "after", time.Since(begun))
		}
	})
	silent(t, func(t *testing.T, a *Conn) {
		begun := time.Now()
		if err := a.SetLinger(3); err != nil {
			t.Error(err)
		}
		if err := a.Close(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != 3*time.Second {
			t.Error(err, "after", time.Since(begun))
		}
	})
}

// TestCloseDelivers checks that messages that were sent before Close arrive, though the program does
// not wait for that.
func TestCloseDelivers(t *testing.T) {
	anywhere(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		for _, n := range []int{5, 4000} {
			if err := a.Send(t.Context(), make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		receiveOne(t, b, 5)
		receiveOne(t, b, 4000)
		if _, err := b.Recv(t.Context()); err != io.EOF {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		for _, c := range []*Conn{a, b} {
			if err := c.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAbort checks that with SetLinger(0) Close resets the connection at once.
func TestAbort(t *testing.T) {
	anywhere(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		if err := a.Send(t.Context(), []byte("hello")); err != nil {
			t.Fatal(err)
		}
		receiveOne(t, b, 5) // and posts its receive again, which the model of mlx5 would not flush later
		if err := errors.Join(a.SetLinger(0), a.Close()); err != nil {
			t.Error(err)
		}
		if !isClosed(a.closed) {
			t.Error("it was left to the background")
		}
		if _, err := b.Recv(t.Context()); !errors.Is(err, rdmacm.ErrDisconnected) {
			t.Error("the peer's Recv:", err)
		}
		if err := a.SetLinger(1); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestCloseWithMessageRead checks that a large message that has been read, but not received when the
// program closes, is dropped once.
func TestCloseWithMessageRead(t *testing.T) {
	w, a := hostile(t)
	b := w.ends[1].conn
	if err := a.Send(t.Context(), make([]byte, 900)); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if _, err := b.tryRecv(); err != errNeedMemory || b.continueFetch() != errAgain {
		t.Fatal(err)
	}
	w.settle()
	freed := b.grant.freed
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if b.grant.freed != freed {
		t.Error("its receive was posted twice")
	}
	stop := w.run()
	defer stop()
	bothClose(t, a, b)
}

// TestShutdownBroken checks that if a connection breaks before the peer has received everything,
// Shutdown returns the cause, and Close does not wait.
func TestShutdownBroken(t *testing.T) {
	w, a := hostile(t)
	if err := a.Send(t.Context(), []byte("lost")); err != nil {
		t.Fatal(err)
	}
	w.cut()
	w.settle()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := a.Shutdown(t.Context()); !errors.Is(err, rdmacm.ErrDisconnected) {
		t.Error(err)
	}
}

// TestCloseAgain checks that another Close frees the rest that the first one could not free.
func TestCloseAgain(t *testing.T) {
	for _, call := range []rdmatest.Call{rdmatest.CallDestroyQP, rdmatest.CallDeregMR, rdmatest.CallDestroyCQ, rdmatest.CallDeallocPD} {
		t.Run(string(call), func(t *testing.T) {
			f := newFabric(t, rdmatest.RXE)
			a, b := connect(t, &small)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if _, err := a.Recv(t.Context()); err != io.EOF {
				t.Error(err)
			}
			<-b.closed
			f.Host(0).Device(0).Fail(call, 0, syscall.EIO)
			if err := a.SetLinger(5); err != nil {
				t.Error(err)
			}
			if err := a.Close(); !errors.Is(err, syscall.EIO) {
				t.Error("the first time:", err)
			}
			if err := a.Close(); err != nil {
				t.Error("the second time:", err)
			}
			if left := f.Host(0).Device(0).Objects(); len(left) > 0 {
				t.Error("left:", left)
			}
			if err := a.Close(); !errors.Is(err, net.ErrClosed) {
				t.Error("the third time:", err)
			}
		})
	}
}

// TestCloseInUse checks that objects that the program has created keep a connection without a pool
// from being freed until they are closed.
func TestCloseInUse(t *testing.T) {
	f := newFabric(t, rdmatest.RXE)
	a, b := connect(t, &small)
	mr, err := a.CM().PD().RegMR(make([]byte, 8), verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	bothEnded := b.Shutdown
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := bothEnded(t.Context()); err != nil {
		t.Error(err)
	}
	if err := a.Shutdown(t.Context()); !errors.Is(err, verbs.ErrInUse) {
		t.Error(err)
	}
	if err := errors.Join(mr.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if left := f.Host(0).Device(0).Objects(); len(left) > 0 {
		t.Error("left:", left)
	}
}

// TestPoolCloseAgain checks that a region or a pool that could not be closed can be closed again.
func TestPoolCloseAgain(t *testing.T) {
	for _, call := range []rdmatest.Call{rdmatest.CallDeregMR, rdmatest.CallDestroyCQ, rdmatest.CallDeallocPD} {
		t.Run(string(call), func(t *testing.T) {
			f := newFabric(t, rdmatest.RXE)
			p := newPool(t, f, 2)
			r, err := p.Register(make([]byte, 8), MayRead)
			if err != nil {
				t.Fatal(err)
			}
			f.Host(0).Device(0).Fail(call, 0, syscall.EIO)
			if call == rdmatest.CallDeregMR {
				if err := r.Close(); !errors.Is(err, syscall.EIO) {
					t.Error(err)
				}
				if err := r.Close(); err != nil {
					t.Error("the second time:", err)
				}
				return
			}
			if err := p.Close(); !errors.Is(err, syscall.EIO) {
				t.Error("the first time:", err)
			}
			if err := p.Close(); err != nil {
				t.Error("the second time:", err)
			}
			if left := f.Host(0).Device(0).Objects(); len(left) > 0 {
				t.Error("left:", left)
			}
		})
	}
}

// TestPoolCloseWaits checks that a pool waits for connections that are being closed in the
// background, and only for those.
func TestPoolCloseWaits(t *testing.T) {
	f, cfg := newFabric(t, rdmatest.RXE), small
	cfg.Pool = newPool(t, f, 4)
	a, b := connect(t, &cfg)
	_, resume := f.Pause()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := cfg.Pool.Close(); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if isClosed(a.closed) || isClosed(b.closed) {
		t.Error("nothing was left to the background")
	}
	time.AfterFunc(time.Millisecond, resume) // or later
	if err := cfg.Pool.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseNil checks that Close of a nil pointer is an error. Free and Release of one do nothing.
func TestCloseNil(t *testing.T) {
	for name, err := range map[string]error{
		"Conn.Close": (*Conn)(nil).Close(), "Conn.Shutdown": (*Conn)(nil).Shutdown(t.Context()), "Conn.SetLinger": (*Conn)(nil).SetLinger(0),
		"Listener": (*Listener)(nil).Close(), "Pool": (*Pool)(nil).Close(), "Region": (*Region)(nil).Close(),
	} {
		if !errors.Is(err, os.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	(*Message)(nil).Release()
	(*Buffer)(nil).Free()
}

// TestEndWithoutCompletions checks that a queue pair may be closed without completing its work
// requests. The connection ends all the same, and every call returns.
func TestEndWithoutCompletions(t *testing.T) {
	anywhere(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		theirs, ours := readable(t, a, b)
		stuck, resume := f.Pause()
		defer resume()
		waits := make(chan error, 2)
		go func() { waits <- a.Read(t.Context(), ours.Span(0, 8), theirs.Remote(), 0) }()
		go func() { _, err := a.Recv(t.Context()); waits <- err }()
		<-stuck
		if err := a.base().Close(); err != nil { // beneath the Conn
			t.Error(err)
		}
		for range 2 {
			if err := <-waits; !errors.Is(err, net.ErrClosed) && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
	})
}

// TestEndUnderCalls checks that every call ends when the peer's end is closed, whenever the call
// began.
func TestEndUnderCalls(t *testing.T) {
	anywhere(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		for range 20 {
			l, err := (&ListenConfig{Config: cfg}).Listen(t.Context(), anyPort)
			if err != nil {
				t.Fatal(err)
			}
			a, b, err1, err2 := meet(t, l, &cfg)
			if err := errors.Join(err1, err2, l.Close()); err != nil {
				t.Fatal(err)
			}
			ends := make(chan error, 3)
			for range 2 {
				go func() {
					for {
						if err := a.Send(t.Context(), []byte("and so on")); err != nil {
							ends <- err
							return
						}
					}
				}()
			}
			go func() { _, err := a.Recv(t.Context()); ends <- err }()
			m, err := b.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m.Release()
			if err := b.base().Close(); err != nil {
				t.Error(err)
			}
			for range 3 {
				var status verbs.Status
				if err := <-ends; !errors.Is(err, rdmacm.ErrDisconnected) && !errors.As(err, &status) {
					t.Error(err)
				}
			}
			bothFree(t, a, b)
		}
	})
}

// TestConfigLinger checks that Linger of a Dialer and of a ListenConfig applies to the connection. If
// positive, Close waits for a message that is stuck, and if negative, Close discards it.
func TestConfigLinger(t *testing.T) {
	f, cfg := newFabric(t, rdmatest.RXE), small
	for _, dialled := range []bool{true, false} {
		for _, cfg.Linger = range []time.Duration{time.Millisecond, -1} {
			a, b := connect(t, &cfg)
			if !dialled {
				a, b = b, a
			}
			_, resume := f.Pause()
			if err := a.Send(t.Context(), []byte("hello")); err != nil {
				t.Fatal(err)
			}
			err := a.Close()
			if cfg.Linger < 0 && err != nil || cfg.Linger > 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("dialled %v, Linger %v: %v", dialled, cfg.Linger, err)
			}
			resume()
			if m, err := b.Recv(t.Context()); !errors.Is(err, rdmacm.ErrDisconnected) {
				t.Errorf("dialled %v, Linger %v, the peer's Recv: %v, %v", dialled, cfg.Linger, m, err)
			}
		}
	}
}
