package uverbs

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestNoteLeftBehind: an event that Get left to a waiter, who went without it, is
// for the next Get.
func TestNoteLeftBehind(t *testing.T) {
	ch := &CompChannel{cqs: make(map[uint64]*CQ), some: make(chan struct{}, 1), reader: newEventReader(&bell{}, 1)}
	cq := &CQ{channel: ch, cookie: 1, event: make(chan struct{}, 1)}
	ch.add(cq)
	cq.waiters.Add(1)
	cq.signal()
	if got := ch.next(); got != nil {
		t.Error("Get took a waiter's event")
	}
	cq.leave()
	if got := ch.next(); got != cq {
		t.Error("the event is lost")
	}
	if got := ch.next(); got != nil || len(cq.event) != 0 {
		t.Error("the event came twice")
	}
}

// TestNoteLeftInARace has the event come as its waiters leave: one of them takes
// it, or Get finds it.
func TestNoteLeftInARace(t *testing.T) {
	ch := &CompChannel{cqs: make(map[uint64]*CQ), some: make(chan struct{}, 1), reader: newEventReader(&bell{}, 1)}
	cq := &CQ{channel: ch, cookie: 1, event: make(chan struct{}, 1)}
	ch.add(cq)
	for range 10000 {
		var all sync.WaitGroup
		var taken atomic.Bool
		cq.waiters.Add(2)
		for i := range 2 {
			all.Go(func() {
				if i == 0 && cq.takeEvent() {
					taken.Store(true)
				}
				cq.leave()
			})
		}
		all.Go(func() {
			if ch.next() != nil {
				taken.Store(true)
			}
		})
		cq.signal()
		all.Wait()
		if ch.next() == nil && !taken.Load() {
			t.Fatal("the event is lost")
		}
		if ch.next() != nil || len(cq.event) != 0 {
			t.Fatal("the event came twice")
		}
	}
}
