package msg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestAllocs checks that messages, small or large, and one-sided operations allocate nothing in the
// steady state.
func TestAllocs(t *testing.T) {
	w, a := hostile(t)
	b := w.ends[1].conn
	ctx := context.Background()
	theirs, err := b.Register(make([]byte, 64), MayRead|MayAtomic)
	if err != nil {
		t.Fatal(err)
	}
	small, large := make([]byte, 50), make([]byte, 900)
	transfer := func(text []byte) {
		if err := a.Send(ctx, text); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if len(text) > 64 { // the first call begins the READ, as a concurrent one would
			if _, err := b.tryRecv(); err != errNeedMemory || b.continueFetch() != errAgain {
				t.Fatal(err)
			}
			w.settle()
		}
		m, err := b.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
		w.settle()
	}
	if n := testing.AllocsPerRun(200, func() { transfer(small) }); n != 0 {
		t.Errorf("%v allocations a small message", n)
	}
	if n := testing.AllocsPerRun(200, func() { transfer(large) }); n != 0 {
		t.Errorf("%v allocations a large message", n)
	}
	stop := w.run()
	defer stop()
	r := theirs.Remote()
	if n := testing.AllocsPerRun(200, func() {
		if _, err := a.FetchAdd(ctx, r, 0, 1); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations an atomic operation", n)
	}
	ours, err := a.Register(make([]byte, 64), 0)
	if err != nil {
		t.Fatal(err)
	}
	ops := reads(ours, theirs, 1)
	if n := testing.AllocsPerRun(200, func() {
		if err := errors.Join(a.Do(ctx, ops), a.Read(ctx, ours.Span(0, 8), r, 0)); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a batch and a READ", n)
	}
}

// idleLink is a link on which nothing happens.
type idleLink struct{ link }

func (idleLink) PostRecv(wrs []verbs.RecvWR) (int, error) { return len(wrs), nil }
func (idleLink) register([]byte, verbs.Access) (memory, error) {
	return new(fakeMem), nil
}

// TestIdleMemory checks that an idle connection takes no more memory than docs/messages.md states.
func TestIdleMemory(t *testing.T) {
	s, err := (&Config{EagerSize: 256, Window: 4}).shape()
	if err != nil {
		t.Fatal(err)
	}
	s.pool = new(Pool) // which has the pump
	least := uint64(1 << 62)
	for range 5 { // other goroutines may only add to it
		least = min(least, allocated(func() {
			c := newConn(idleLink{}, 1, s, nil)
			if err := c.prepare(); err != nil {
				t.Fatal(err)
			}
			c.open(s.hello(), false)
		}))
	}
	if t.Logf("%d bytes", least); least > 9400 {
		t.Errorf("%d bytes, more than 9400", least)
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestCycles connects, talks and closes, again and again, over each kind of device and in
// each way: no goroutine and no memory is left.
func TestCycles(t *testing.T) {
	onFabrics(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		conntest.Cycles(t, 1, func() error { return cycle(t, l, &cfg) })
	})
}

// cycle opens, uses and closes a connection.
func cycle(t *testing.T, l *Listener, cfg *Config) error {
	t.Helper()
	a, b, err1, err2 := meet(t, l, cfg)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, way := range [][2]*Conn{{a, b}, {b, a}} {
		if err := way[0].Send(t.Context(), []byte("hello")); err != nil {
			return err
		}
		m, err := way[1].Recv(t.Context())
		if err != nil || string(m.Bytes()) != "hello" {
			return fmt.Errorf("%v, %w", m, err)
		}
		m.Release()
	}
	bothClose(t, a, b)
	return nil
}

// TestRemoved checks that when the device is removed, all waiting calls return an error that says so.
// Everything that was on the device can still be closed.
func TestRemoved(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Run("alone", func(t *testing.T) { removed(t, newFabric(t, kind), small) })
			t.Run("pool", func(t *testing.T) {
				f, cfg := newFabric(t, kind), small
				dev, err := uverbs.Open(f.Host(0).Device(0).Name())
				if err != nil {
					t.Fatal(err)
				}
				if cfg.Pool, err = NewPool(dev, 4, &small); err != nil {
					t.Fatal(err)
				}
				removed(t, f, cfg)
				closeAll(t, cfg.Pool, dev)
			})
		})
	}
}

func removed(t *testing.T, f *rdmatest.Fabric, cfg Config) {
	l := listen(t, &cfg)
	a, b, err1, err2 := meet(t, l, &cfg)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	conntest.Removed(t, f.Host(0).Device(0),
		func() error { _, err := a.Recv(t.Context()); return err },
		func() error { _, err := b.Recv(t.Context()); return err },
		func() error { _, err := l.Accept(t.Context()); return err })
	closeAll(t, a, b)
}

func closeAll(t *testing.T, all ...io.Closer) {
	t.Helper()
	for _, c := range all {
		if err := c.Close(); err != nil {
			t.Errorf("%T: %v", c, err)
		}
	}
}
