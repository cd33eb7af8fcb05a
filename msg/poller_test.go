package msg

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

func patiently(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestCallsSideBySide checks that calls of every kind wait concurrently, some are canceled, and each
// gets its own result.
func TestCallsSideBySide(t *testing.T) {
	anywhere(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		a, b := connect(t, &cfg)
		ctx := patiently(t)
		region, err := b.Register(make([]byte, 64), MayRead|MayWrite)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, c := range []*Conn{a, b} {
			all.Go(func() { sendNumbers(t, ctx, c) })
			all.Go(func() { receiveNumbers(t, ctx, c) })
		}
		for i := range 4 {
			own, err := a.Register(make([]byte, 8), 0)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() { readBack(t, ctx, a, own, region.Remote(), uint64(8*i)) })
		}
		all.Wait()
	})
}

const numbers = 300

func sendNumbers(t *testing.T, ctx context.Context, c *Conn) {
	text := make([]byte, 8)
	for i := range uint64(numbers) {
		binary.NativeEndian.PutUint64(text, i)
		if err := c.Send(ctx, text); err != nil {
			t.Error(err)
			return
		}
	}
}

// receiveNumbers cancels some of its calls, which then receive no message.
func receiveNumbers(t *testing.T, ctx context.Context, c *Conn) {
	for i := range uint64(numbers) {
		call, cancel := ctx, context.CancelFunc(func() {})
		if i%8 == 0 {
			call, cancel = context.WithTimeout(ctx, 100*time.Microsecond)
		}
		m, err := c.Recv(call)
		cancel()
		if err != nil {
			if i%8 != 0 || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				t.Error(err)
				return
			}
			if m, err = c.Recv(ctx); err != nil {
				t.Error(err)
				return
			}
		}
		if got := binary.NativeEndian.Uint64(m.Bytes()); got != i {
			t.Errorf("%d came as %d", i, got)
		}
		m.Release()
	}
}

func readBack(t *testing.T, ctx context.Context, c *Conn, own *Region, at RemoteRegion, off uint64) {
	for i := range uint64(numbers / 3) {
		binary.NativeEndian.PutUint64(own.Bytes(), i)
		err := c.Write(ctx, at, off, own.Span(0, 8))
		clear(own.Bytes())
		if err == nil {
			err = c.Read(ctx, own.Span(0, 8), at, off)
		}
		if got := binary.NativeEndian.Uint64(own.Bytes()); got != i || err != nil {
			t.Errorf("%d was read back as %d: %v", i, got, err)
			return
		}
	}
}

// TestBackground checks that the peer's Close is answered while the program makes no call.
func TestBackground(t *testing.T) {
	anywhere(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		a, _ := connect(t, &cfg)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitsEnd checks that a call that holds the turn returns when something else than a completion
// ends its wait.
func TestWaitsEnd(t *testing.T) {
	anywhere(t, func(t *testing.T, _ *rdmatest.Fabric, cfg Config) {
		a, _ := connect(t, &cfg)
		var lent []*Buffer
		for range cap(a.small) {
			b, err := a.Alloc(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			lent = append(lent, b)
		}
		asleep := func() {
			t.Helper()
			for end := time.Now().Add(time.Minute); !a.poller.turn.IsSleeping() || a.poller.turn.InBackground(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("no call waits")
				}
			}
		}
		got := make(chan error, 1)
		go func() { _, err := a.Alloc(patiently(t), 1); got <- err }()
		asleep()
		lent[0].Free()
		if err := <-got; err != nil {
			t.Error("a buffer that was given back:", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, err := a.Recv(ctx); got <- err }()
		asleep()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		go func() { _, err := a.Recv(patiently(t)); got <- err }()
		asleep()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := <-got; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
