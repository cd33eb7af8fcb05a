package rsocket

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// strangerTo dials as rsocket does, and says nothing.
func strangerTo(t *testing.T, l net.Listener) (*Conn, *rdmacm.Conn) {
	t.Helper()
	z, err := new(Config).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	peer := newConn()
	d := rdmacm.Dialer{Config: z.rdmacm()}
	d.Prepare = func(rc *rdmacm.Conn) error { return peer.prepare(rc, &z) }
	rc, err := d.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return peer, rc
}

// Over iWARP, erdma included, the side that accepted sends nothing to a peer that has never
// spoken. When it closes it does not wait long for that.
func TestCloseSilentPeer(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.SIW, rdmatest.ERDMA} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFabric(t, kind)
				l, err := (&ListenConfig{Config: Config{MaxIdleTimeout: -1}}).Listen(t.Context(), fabricHost+":0")
				if err != nil {
					t.Fatal(err)
				}
				accepted := acceptAndHold(l)
				_, rc := strangerTo(t, l)
				c := (<-accepted).(*Conn)
				stuck, resume := f.Pause()
				start := time.Now()
				_ = c.Close()
				time.Sleep(silentLimit - 1)
				synctest.Wait()
				select {
				case <-stuck:
					t.Error("something is sent too soon")
				default:
				}
				resume()
				err, _ = c.conn.Freed(context.Background())
				if d := time.Since(start); err != nil || d > silentLimit+time.Second {
					t.Errorf("%v, after %v", err, d)
				}
				_ = rc.Close()
				_ = l.Close()
			})
		})
	}
}

// A peer that sends words without end does not keep the lock of a call: there is a bound of
// them, and the rest is taken by the next look.
func TestFloodOfWords(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			a, b := f.pair(Config{RecvQueue: leastQueue})
			flood := b.conn.Receives.Count
			b.conn.Mu.Lock()
			b.conn.Receive() // what both say at first
			b.conn.Mu.Unlock()
			a.conn.Mu.Lock()
			for range flood {
				m := message{word: newWord(opControl, ctrlKeepAlive)}
				if err := a.verbs.post(&m); err != nil {
					t.Fatal(err)
				}
			}
			for sent := 0; sent < flood; {
				n, err := a.conn.Sends.CQ.Wait(t.Context(), make([]verbs.WC, 16))
				if err != nil {
					t.Fatal(err)
				}
				sent += n
			}
			a.conn.Mu.Unlock()
			b.conn.Mu.Lock()
			defer b.conn.Mu.Unlock()
			b.conn.Receives.Count = 1 // the bound
			if n := b.conn.Receive(); n != 16 {
				t.Errorf("%d words of %d in a call", n, flood)
			}
			if n := b.conn.Receive(); n != flood-16 {
				t.Errorf("%d words are left, of %d", n, flood-16)
			}
		})
	}
}

// A peer that leaves without a word right after it has connected ends the connection.
func TestAbortAtOnce(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		for range 20 {
			a, b := f.pair(Config{})
			_ = a.SetLinger(0)
			_ = a.Close()
			_ = b.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := b.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			_ = b.Close()
		}
	})
}

// Closes of all kinds at a time, with calls under way, leave nothing behind.
func TestCloseStorm(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		before := runtime.NumGoroutine()
		for round := range 16 {
			c1, c2, _, err := f.pipe(Config{Mappings: 2})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for _, end := range []net.Conn{c1, c2} {
				c := end.(*Conn)
				all.Go(func() { _, _ = c.Write(make([]byte, 300_000)) })
				all.Go(func() { _, _ = io.ReadFull(c, make([]byte, 100_000)) })
				all.Go(func() {
					if m, err := c.Map(make([]byte, 4096), 0); err == nil {
						_ = m.Close()
					}
				})
				all.Go(func() { _ = c.CloseWrite() })
				all.Go(func() { _ = c.SetLinger(round%3 - 1) })
				for range 3 {
					all.Go(func() { _ = c.SetDeadline(time.Now().Add(time.Hour)) })
					all.Go(func() { _ = c.Close() })
					all.Go(func() { _ = c.Shutdown(ctx) })
				}
			}
			cancel()
			all.Wait()
			for _, end := range []net.Conn{c1, c2} {
				_, _ = end.(*Conn).conn.Freed(context.Background())
			}
		}
		for start := time.Now(); runtime.NumGoroutine() > before+2; time.Sleep(time.Millisecond) {
			if time.Since(start) > time.Minute {
				t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
			}
		}
	})
}
