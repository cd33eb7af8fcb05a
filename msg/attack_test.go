package msg

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// A peer that hands out nothing of a large message loses its connection when another one
// waits for the memory, and not before.
func TestStalledPeerMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := (&Config{EagerSize: 64, Window: 16, MaxMessage: 1 << 20, MaxIdleTimeout: -1}).shape()
		if err != nil {
			t.Fatal(err)
		}
		shared := &budget{most: 1 << 20}
		stalled, honest := newWorld(t, s), newWorld(t, s)
		received := make(map[*world]chan error)
		ask := func(w *world) *Conn {
			w.open()
			w.settle()
			c := w.ends[0].conn
			c.heap.account.budget = shared
			at := make([]byte, rtsSize)
			rts{1 << 40, 1 << 20, 7}.put(at)
			w.inject(bytesOfFrame(frame{typ: typeRTS, limit: 17, cookie: 1}, at...))
			received[w] = make(chan error, 1)
			go func() { _, err := c.Recv(t.Context()); received[w] <- err }()
			synctest.Wait()
			return c
		}
		a := ask(stalled)
		time.Sleep(time.Hour)
		if stalled.ends[0].over {
			t.Error("a slow peer is cut off although nobody waits")
		}
		b := ask(honest)
		if n := honest.registered(b); n != 0 {
			t.Errorf("%d bytes beyond the budget", n)
		}
		time.Sleep(2 * crowdLimit)
		synctest.Wait()
		stalled.settle()
		synctest.Wait()
		select {
		case err := <-received[stalled]:
			if !errors.Is(err, syscall.ETIMEDOUT) {
				t.Error(err)
			}
		default:
			t.Fatal("the stalled peer keeps the memory")
		}
		_ = a.Close()
		_ = a.heap.Close() // as the connection manager does
		synctest.Wait()
		if n := honest.registered(b); n != firstPiece {
			t.Errorf("%d bytes for the one that waited", n)
		}
		honest.settle() // the READ fails
		<-received[honest]
		_ = b.Close()
		_ = b.heap.Close()
		time.Sleep(time.Minute)
	})
}

// A peer that leaves without a word right after it has connected ends the connection.
func TestAbortAtOnce(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			newFabric(t, kind)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for range 20 {
				a, b := connect(t, &small)
				_ = a.SetLinger(0)
				_ = a.Close()
				if _, err := b.Recv(ctx); err == nil || ctx.Err() != nil {
					t.Fatal("the end is not noticed:", err)
				}
				_ = b.Close()
			}
		})
	}
}

// Whoever has the turn does not stay with a queue that is always full.
func TestFullQueue(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	a, _ := connect(t, &small)
	var p poller
	post := func() {
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: make([]verbs.SGE, 1)}
		for range 2 {
			_, _ = a.link.PostSend([]verbs.SendWR{wr}) // there may be no room
		}
	}
	if !a.poller.turn.TryAcquire() {
		t.Skip("the keeper has the turn")
	}
	for range 20 {
		post()
	}
	done, taken := make(chan struct{}), 0
	p.handle = func(*verbs.WC) {
		if taken++; taken < 1<<20 {
			post()
		}
	}
	go func() {
		defer close(done)
		_, _ = p.empty(a.poller.sendCQ)
	}()
	<-done
	if taken > 2*mostPolls*len(p.wcs) {
		t.Errorf("%d completions in a call", taken)
	}
	a.poller.turn.Release()
}

// Closes of all kinds at a time, with calls under way, leave nothing behind.
func TestCloseStorm(t *testing.T) {
	anywhere(t, func(t *testing.T, f *rdmatest.Fabric, cfg Config) {
		l := listen(t, &cfg)
		before := runtime.NumGoroutine()
		for round := range 12 {
			a, b, err1, err2 := meet(t, l, &cfg)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for _, c := range []*Conn{a, b} {
				all.Go(func() { _ = c.Send(ctx, make([]byte, 64<<(round%4))) })
				all.Go(func() {
					if m, err := c.Recv(ctx); err == nil {
						m.Release()
					}
				})
				all.Go(func() { _ = c.SetLinger(round%3 - 1) })
				for range 3 {
					all.Go(func() { _ = c.Close() })
					all.Go(func() { _ = c.Shutdown(ctx) })
				}
			}
			cancel()
			all.Wait()
			bothFree(t, a, b)
		}
		for start := time.Now(); runtime.NumGoroutine() > before+2; time.Sleep(time.Millisecond) {
			if time.Since(start) > time.Minute {
				t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
			}
		}
	})
}
