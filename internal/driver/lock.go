package driver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/mmap"
)

// Lock guards a queue. It is held while the queue is touched: for a few nanoseconds a
// batch, and for the system calls that belong to the queue: the doorbell of a send,
// rxe's arming, moving a QP, replacing a queue. Taking and releasing it costs one locked
// instruction. sync.Mutex needs two, which was most of the cost of an empty poll.
// Waiters queue up, but a goroutine that finds the lock free takes it before them.
//
// C: the pthread_spinlock_t of every provider
type Lock struct {
	held atomic.Uint32
	line sync.Mutex // held by the first of those who wait
}

func (l *Lock) Lock() {
	if !l.held.CompareAndSwap(0, 1) {
		l.wait()
	}
}

// TryLock takes the lock if nobody holds it.
func (l *Lock) TryLock() bool { return l.held.CompareAndSwap(0, 1) }

func (l *Lock) Unlock() { mmap.StoreRelease(&l.held, 0) }

// wait yields the processor, perhaps to the holder, and sleeps longer and longer while
// the holder stays in a system call. In a bubble of testing/synctest time.Sleep would wait for
// those who queue up on line, which wait for it.
func (l *Lock) wait() {
	const yields, longest = 256, time.Millisecond
	l.line.Lock()
	defer l.line.Unlock()
	pause := 16 * time.Microsecond
	for i := 0; !l.held.CompareAndSwap(0, 1); i++ {
		if i < yields {
			runtime.Gosched()
			continue
		}
		sleep(pause)
		pause = min(2*pause, longest)
	}
}
