package msg

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// Peers of a pool that die, idle or in the middle of what they send, and peers that the
// network loses end on the server, and others are served meanwhile.
func TestHostsVanish(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hostsVanish(t, kind) })
		})
	}
}

func hostsVanish(t *testing.T, kind rdmatest.Kind) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: make([]rdmatest.HostOptions, 4)})
	cfg := small
	cfg.MaxIdleTimeout = time.Second
	cfg.Pool = newPool(t, f, 16)
	l, err := (&ListenConfig{Config: cfg}).Listen(t.Context(), f.Host(0).Addr()+":7471")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var served sync.WaitGroup
	served.Go(func() {
		for {
			if _, err := l.Accept(ctx); err != nil {
				return
			}
		}
	})
	for range 3 {
		served.Go(func() {
			for {
				c, m, err := cfg.Pool.Recv(ctx)
				switch {
				case c == nil:
					return
				case err != nil:
					_ = c.Close()
					continue
				}
				short, done := context.WithTimeout(ctx, time.Second)
				_ = c.Send(short, m.Bytes())
				done()
				m.Release()
			}
		})
	}
	alone := small
	alone.MaxIdleTimeout = -1
	echo := func(c *Conn, n int) error {
		err := c.Send(t.Context(), make([]byte, n))
		if err == nil {
			var m *Message
			if m, err = c.Recv(t.Context()); err == nil {
				m.Release()
			}
		}
		return err
	}
	dial := func(host int) *Conn {
		t.Helper()
		c, err := (&Dialer{Config: alone}).Dial(f.Host(host).Context(t.Context()), l.Addr().String())
		if err == nil {
			err = echo(c, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var lost []*Conn
	for range 5 {
		lost = append(lost, dial(1), dial(2))
	}
	honest := dial(3)
	before := runtime.NumGoroutine()
	var sending sync.WaitGroup
	for _, c := range lost[:4] { // two of each host never receive what comes back
		sending.Go(func() {
			for err := error(nil); err == nil; {
				err = c.Send(ctx, make([]byte, 4096))
			}
		})
	}
	synctest.Wait()
	f.Host(1).Kill()
	heal := f.Partition(f.Host(0), f.Host(2))
	for range 60 {
		time.Sleep(time.Second)
		for _, n := range []int{1, 4096} {
			if err := echo(honest, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	const most = 1
	cfg.Pool.mu.Lock()
	if n := len(cfg.Pool.conns); n > most {
		t.Errorf("%d connections are left on the server", n)
	}
	cfg.Pool.mu.Unlock()
	heal()
	for _, c := range append(lost, honest) {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
	time.Sleep(20 * time.Second)
	cancel()
	sending.Wait()
	served.Wait()
	_ = l.Close()
	time.Sleep(20 * time.Second)
	synctest.Wait()
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	if n := cfg.Pool.budget.used; n > cfg.Pool.budget.most {
		t.Errorf("%d bytes are reserved", n)
	}
}
