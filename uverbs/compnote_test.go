package uverbs

import "testing"

// TestNoteLeftBehind: an event that Get left to a waiter, who went without it, is
// for the next Get.
func TestNoteLeftBehind(t *testing.T) {
	ch := &CompChannel{cqs: make(map[uint64]*CQ), some: make(chan struct{}, 1)}
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
