package driver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/mmap"
)

// Lock guards a queue. It is held while the queue is touched: a few nanoseconds for a batch, and
// for a system call where one belongs to it: the doorbell of a send, rxe's arming,
// a QP that is moved, a queue that is replaced. Taking and giving it back costs one
// locked instruction; sync.Mutex needs two, which was most of the price of a poll of
// nothing. Those who wait stand in line, but who comes at the right moment is let
// in before them.
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

// wait leaves the processor to others, who may be the holder, and sleeps longer and
// longer when the holder stays in a system call.
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
		time.Sleep(pause)
		pause = min(2*pause, longest)
	}
}
