package driver

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// TestLockInBubble: whoever waits for the lock gets it although somebody else in the bubble
// waits for a mutex, which has the bubble's time stand still.
func TestLockInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lock
		var all sync.WaitGroup
		l.Lock()
		for range 2 { // the second waits for a mutex, behind the first
			all.Go(func() {
				l.Lock()
				defer l.Unlock()
			})
		}
		for l.line.TryLock() {
			l.line.Unlock()
			runtime.Gosched()
		}
		for range 10000 { // the first has yielded in vain, and sleeps
			runtime.Gosched()
		}
		l.Unlock()
		all.Wait()
	})
}
