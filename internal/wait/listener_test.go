package wait

import (
	"encoding/binary"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tape is a source whose records come from a test.
type tape struct {
	records chan uint64
	kick    chan struct{}
}

func newTape() tape { return tape{make(chan uint64, 4), make(chan struct{}, 1)} }

func (s tape) Read(b []byte) (int, error) {
	select {
	case n := <-s.records:
		binary.NativeEndian.PutUint64(b, n)
		return recordSize, nil
	case <-s.kick:
		return 0, os.ErrDeadlineExceeded
	}
}

func (s tape) SetReadDeadline(when time.Time) error {
	select {
	case <-s.kick:
	default:
	}
	if !when.IsZero() {
		s.kick <- struct{}{}
	}
	return nil
}

func (tape) Await(time.Duration) bool { return false }
func (tape) Close() error             { return nil }

// start starts a waiter, and returns when it leads or follows.
func start(t *testing.T, l *Listener) <-chan error {
	done := make(chan error, 1)
	l.Join()
	go func() { done <- l.Wait(t.Context()) }()
	synctest.Wait()
	return done
}

// TestEndWakesWaiters checks that the end of a listener reaches all its waiters, leading or
// following, and no others.
func TestEndWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTape()
		ch := NewChannel(s)
		l, other := newListener(ch, 1), newListener(ch, 2)
		parked, queued := start(t, l), start(t, l)
		stays := start(t, other)
		l.End()
		for _, done := range []<-chan error{parked, queued} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if len(stays) != 0 {
			t.Error("another listener's waiter returned")
		}
		s.records <- 2
		if err := <-stays; err != nil {
			t.Error(err)
		}
	})
}

// TestLeaveWakesNext checks that an event wakes one waiter, which wakes the next when it leaves.
func TestLeaveWakesNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTape()
		l := newListener(NewChannel(s), 1)
		first, next := start(t, l), start(t, l)
		s.records <- 1
		synctest.Wait()
		if len(first)+len(next) != 1 {
			t.Fatalf("%d waiters were woken by one event", len(first)+len(next))
		}
		l.Leave()
		<-first
		<-next
	})
}

// TestCounted checks that an event is counted once it has been read, by any waiter.
func TestCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTape()
		ch := NewChannel(s)
		l, other := newListener(ch, 1), newListener(ch, 2)
		counted := make(map[*Listener]int)
		for _, l := range []*Listener{l, other} {
			l.Counted = func() { counted[l]++ }
		}
		done := start(t, l)
		s.records <- 2
		s.records <- 1
		if err := <-done; err != nil {
			t.Error(err)
		}
		if counted[l] != 1 || counted[other] != 1 {
			t.Errorf("%d and %d events were counted", counted[l], counted[other])
		}
	})
}

// newListener makes a listener of a channel on which nothing happens.
func newListener(ch *Channel, number uint64) *Listener {
	l := NewListener(ch, number, nil)
	l.Begin()
	return l
}

// TestEventLeftBehind checks that an event that was kept for a waiter, which left without it, is for
// the next Get.
func TestEventLeftBehind(t *testing.T) {
	ch := NewChannel(&bell{})
	l := newListener(ch, 1)
	l.Join()
	l.signal()
	if ch.next() != nil {
		t.Error("Get took a waiter's event")
	}
	l.Leave()
	if ch.next() != l {
		t.Error("the event is lost")
	}
	if ch.next() != nil || len(l.event) != 0 {
		t.Error("the event came twice")
	}
}

// TestWaiterBeforeGet checks that an event that was for Get is for a waiter as soon as there is one.
func TestWaiterBeforeGet(t *testing.T) {
	ch := NewChannel(&bell{})
	l := newListener(ch, 1)
	l.signal()
	l.Join()
	if ch.next() != nil || !l.takeEvent() {
		t.Error("Get took a waiter's event")
	}
	l.Leave()
}

// TestEventLeftInARace checks that if an event comes as the waiters leave, one of them takes it or
// Get finds it.
func TestEventLeftInARace(t *testing.T) {
	ch := NewChannel(&bell{})
	l := newListener(ch, 1)
	for range 10000 {
		var all sync.WaitGroup
		var taken atomic.Bool
		l.Join()
		l.Join()
		for i := range 2 {
			all.Go(func() {
				if i == 0 && l.takeEvent() {
					taken.Store(true)
				}
				l.Leave()
			})
		}
		all.Go(func() {
			if ch.next() != nil {
				taken.Store(true)
			}
		})
		l.signal()
		all.Wait()
		if ch.next() == nil && !taken.Load() {
			t.Fatal("the event is lost")
		}
		if ch.next() != nil || len(l.event) != 0 {
			t.Fatal("the event came twice")
		}
	}
}

// TestGetterWakesNext checks that if two listeners had an event, and two goroutines are in Get, the
// first to find one wakes the other.
func TestGetterWakesNext(t *testing.T) {
	ch := NewChannel(&bell{})
	one, other := newListener(ch, 1), newListener(ch, 2)
	one.signal()
	other.signal()
	<-ch.some // the first getter's
	if ch.next() != one {
		t.Error("not the listener that had the first event")
	}
	select {
	case <-ch.some: // the second one's
	default:
		t.Error("the second getter sleeps on")
	}
	if ch.next() != other || len(ch.some) != 0 {
		t.Error("not the listener that had the second event, or somebody is woken for nothing")
	}
}

// TestNothingLeftOfEnded checks that the channel forgets a listener that has ended, and drops its
// late events.
func TestNothingLeftOfEnded(t *testing.T) {
	ch := NewChannel(&bell{})
	l := newListener(ch, 1)
	l.signal()
	l.End()
	if len(ch.listeners) != 0 || ch.next() != nil {
		t.Errorf("left are %v and %v", ch.listeners, ch.noted)
	}
	l.signal()
	if ch.next() != nil {
		t.Error("Get returned a listener that has ended")
	}
}
