package wait

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// heldEvents is a source that holds the thread until it is let go. Only a deadline ends
// the read after that.
type heldEvents struct {
	held, kicked, letGo chan struct{}
	inside              atomic.Bool
	early               bool // closed while the thread was held
}

func (h *heldEvents) Await(time.Duration) bool {
	h.inside.Store(true)
	close(h.held)
	<-h.letGo
	h.inside.Store(false)
	return false
}

func (h *heldEvents) Read([]byte) (int, error) {
	<-h.kicked
	return 0, os.ErrDeadlineExceeded
}

func (h *heldEvents) SetReadDeadline(when time.Time) error {
	if !when.IsZero() {
		close(h.kicked)
	}
	return nil
}

func (h *heldEvents) Close() error {
	h.early = h.inside.Load()
	return nil
}

// TestCloseWhileHeld checks that Close waits for the thread that is held, because it keeps the
// kernel's file open. All waiters return.
func TestCloseWhileHeld(t *testing.T) {
	defer func(n int32) { maxHeld = n }(maxHeld)
	maxHeld = 1
	h := &heldEvents{held: make(chan struct{}), kicked: make(chan struct{}), letGo: make(chan struct{})}
	ch := NewChannel(h)
	l := newListener(ch, 1)
	wait := func() error { return l.Wait(context.Background()) }
	ends, closed := make(chan error, 2), make(chan error, 1)
	go func() { ends <- wait() }()
	<-h.held
	go func() { ends <- wait() }()
	go func() { closed <- ch.Close() }()
	<-h.kicked
	close(h.letGo)
	for range cap(ends) {
		if err := <-ends; !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}
	if err := <-closed; err != nil || h.early {
		t.Errorf("%v, closed while a thread was held: %v", err, h.early)
	}
}

// bell is a source that has a record or not, and counts calls of Await.
type bell struct {
	silentEvents
	rings  bool
	awaits int
}

func (b *bell) Await(time.Duration) bool {
	b.awaits++
	return b.rings
}

type silentEvents struct{}

func (silentEvents) Read([]byte) (int, error)        { return 0, nil }
func (silentEvents) Close() error                    { return nil }
func (silentEvents) SetReadDeadline(time.Time) error { return nil }

// TestPatience checks that each disappointment makes a waiter hold its thread less often, and a
// success makes up for it.
func TestPatience(t *testing.T) {
	defer func(n int32) { maxHeld = n }(maxHeld)
	maxHeld = 1
	var p patience
	b := &bell{}
	times := func(n int) int {
		before := b.awaits
		for range n {
			p.await(b)
		}
		return b.awaits - before
	}
	if n := times(1000); n < 10 || n > 25 {
		t.Errorf("held a thread %d times of 1000, all for nothing", n)
	}
	b.rings = true
	times(mostSkipped + 1)
	if n := times(100); n != 100 {
		t.Errorf("held a thread %d times of 100, where each was worth it", n)
	}
	maxHeld = 0
	if n := times(100); n != 0 {
		t.Errorf("held a thread %d times where there is none to spare", n)
	}
	if held.Load() != 0 {
		t.Errorf("%d threads are still held", held.Load())
	}
}
