package wait

import (
	"sync"
	"sync/atomic"
	"testing"
)

// newListener makes a listener of a channel on which nothing happens.
func newListener(ch *Channel, number uint64) *Listener {
	l := NewListener(ch, number, nil)
	l.Begin()
	return l
}

// An event that Get left to a waiter, which went without it, is for the next Get.
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

// An event that was Get's is a waiter's as soon as there is one.
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

// An event comes as the waiters leave: one of them takes it, or Get finds it.
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

// Two listeners had an event, and two goroutines are in Get: the first that finds one
// wakes the other.
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

// Nothing of a listener that has ended is left in the channel, and late events of it are
// dropped.
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
