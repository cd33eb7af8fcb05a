package rdmacm

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/rdmatest"
)

// A host may dial as often as it likes at once: none of its dials fails.
func TestBurst(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		dials := 500
		if kind == rdmatest.SIW { // the kernel's own backlog, 1,024, is over iWARP a limit that rejects
			dials = 2000
		}
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { burst(t, kind, dials) })
		})
	}
}

func burst(t *testing.T, kind rdmatest.Kind, dials int) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind, Hosts: make([]rdmatest.HostOptions, 2)})
	l, err := Listen(t.Context(), f.Host(0).Addr()+":0")
	if err != nil {
		t.Fatal(err)
	}
	ctx := f.Host(1).Context(context.Background())
	var all sync.WaitGroup
	for range dials {
		all.Go(func() {
			c, err := Dial(ctx, l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Err(); err != nil {
				t.Error(err)
			}
			<-c.Done()
			closeConn(t, c)
		})
	}
	var accepted []*Conn
	for range dials {
		c, err := l.Accept(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, c)
		time.Sleep(time.Millisecond)
	}
	for _, c := range accepted {
		if err := c.Err(); err != nil {
			t.Error(err)
		}
		all.Go(func() { closeConn(t, c) })
	}
	all.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A peer whose confirmation waits in the event channel keeps its place, and one that is silent does not.
func TestConfirmedNotEvicted(t *testing.T) {
	for _, confirms := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, &ListenConfig{Backlog: 1})
			defer c.b.end()
			var unread []func()
			c.b.settle = func(f func()) { unread = append(unread, f) }
			c.ask("10.0.0.1:1")
			c.b.advance()
			synctest.Wait()
			h := c.b.handshakes[0]
			h.r.conn = newConn(nil)
			c.ask("10.0.0.2:2000")
			time.Sleep(2 * time.Second) // more than a tenth of ConfirmTimeout
			if h, _, next := c.b.advance(); h != nil || next != 0 || len(unread) != 1 {
				t.Fatal(h, next, len(unread))
			}
			h.r.conn.confirmed.Store(confirms)
			unread[0]() // decides, because a confirmation may come before Accept is called again
			if h.evicted == confirms {
				t.Errorf("confirms: %v, evicted: %v", confirms, h.evicted)
			}
		})
	}
}

// A confirmation that arrives with the end of ConfirmTimeout counts.
func TestConfirmedNotExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, &ListenConfig{})
		defer c.b.end()
		c.b.settle = func(f func()) {
			c.b.mu.Lock()
			conn := c.b.handshakes[0].r.conn
			c.b.mu.Unlock()
			conn.confirmed.Store(true) // which was unread
			f()
		}
		c.ask("10.0.0.1:1")
		c.b.advance()
		synctest.Wait()
		c.b.mu.Lock()
		c.b.handshakes[0].r.conn = newConn(nil)
		c.b.mu.Unlock()
		time.Sleep(time.Minute)
		if c.half("10.0.0.1") != 1 {
			t.Error("the handshake has ended")
		}
	})
}

// settle runs a function behind the events that wait.
func TestSettle(t *testing.T) {
	k, h := fakeHub(t)
	c := connOnHub(t, h, new(fakeQP))
	settled := make(chan int)
	for range 100 {
		go h.settle(func() { settled <- len(c.setup) })
		<-settled
		k.report(c.id.handle, EventConnectError, nil)
		go h.settle(func() { settled <- len(c.setup) })
		if n := <-settled; n != 1 {
			t.Fatal(n, "events")
		}
		<-c.setup
	}
}

// A peer that rejects a connection which this side takes for established ends it.
func TestRejectedLate(t *testing.T) {
	for _, early := range []bool{true, false} { // before Dial is over, or after
		k, h := fakeHub(t)
		c := connOnHub(t, h, new(fakeQP))
		reject := func() {
			k.report(c.id.handle, EventRejected, func(ev *abi.RdmaUcmEventResp) { ev.Status = uint32(RejectConsumer) })
		}
		if early {
			reject()
			eventually(t, "the rejection", func() bool { return len(c.setup) == 1 })
		}
		c.connected()
		if !early {
			reject()
		}
		<-c.Done()
		if err := c.Err(); !errors.Is(err, ErrDisconnected) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
	}
}
