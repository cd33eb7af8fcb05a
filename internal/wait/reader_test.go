package wait

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// heldEvents has a thread held until it is let go, and then a read that only a
// deadline ends.
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

// Close waits for the thread that is held, which keeps the kernel's file open. All that
// wait learn of the end.
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
