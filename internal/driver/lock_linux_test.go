package driver

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLockInBubble checks that waiters get the lock although time stands still, because one of them
// waits for another on a mutex, which does not let a bubble's clock go on.
func TestLockInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lock
		l.Lock()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { l.Lock(); defer l.Unlock() })
		}
		busy(50 * time.Millisecond) // both wait now, and the first has given up to yield
		l.Unlock()
		all.Wait()
	})
}

// busy passes real time, in steps that let other goroutines run.
func busy(d time.Duration) {
	for range d / time.Millisecond {
		sleep(time.Millisecond)
	}
}
