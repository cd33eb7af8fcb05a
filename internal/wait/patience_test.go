package wait

import (
	"testing"
	"time"
)

// bell rings, or not, and counts who listens.
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

// TestPatience: who is disappointed waits less often, and a success makes up for it.
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
