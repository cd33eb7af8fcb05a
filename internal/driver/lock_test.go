package driver

import (
	"sync"
	"testing"
	"time"
)

// TestLock has many goroutines change what the lock guards, and one that holds
// it longer than others care to yield.
func TestLock(t *testing.T) {
	const goroutines, rounds = 8, 20000
	var l Lock
	var guarded [4]int
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range rounds {
				l.Lock()
				for k := range guarded {
					guarded[k]++
				}
				if guarded[0] != guarded[3] {
					t.Error("two were inside")
				}
				if g == 0 && i%1000 == 0 {
					time.Sleep(time.Millisecond)
				}
				l.Unlock()
			}
		})
	}
	all.Wait()
	if guarded[3] != goroutines*rounds {
		t.Errorf("%d, want %d", guarded[3], goroutines*rounds)
	}
}

// BenchmarkUncontended is the price of a lock that nobody else takes, which a thread domain would
// save: docs/decisions.md has the figures.
func BenchmarkUncontended(b *testing.B) {
	var work uint64
	b.Run("lock", func(b *testing.B) {
		b.ReportAllocs()
		var l Lock
		for b.Loop() {
			l.Lock()
			work++
			l.Unlock()
		}
	})
	b.Run("flag", func(b *testing.B) { // what would remain: the queue asks whether it has a lock
		b.ReportAllocs()
		var l Lock
		single := true
		for b.Loop() {
			if !single {
				l.Lock()
			}
			work++
			if !single {
				l.Unlock()
			}
		}
	})
}
