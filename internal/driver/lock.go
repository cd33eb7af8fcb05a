package driver

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/mmap"
)

// Lock guards a queue. It is held for a few nanoseconds for each batch, and during the system calls
// for the queue: a send's doorbell, rxe's arming, modifying a QP, replacing a queue. Locking and
// unlocking takes one locked instruction. sync.Mutex needs two, which was half the cost of an empty
// poll.
// Waiters queue up, but a goroutine that finds the lock free takes it before them.
//
// C: the pthread_spinlock_t of every provider
type Lock struct {
	held atomic.Uint32
	line sync.Mutex // held by the first waiter
}

func (l *Lock) Lock() {
	if l.held.Swap(1) != 0 { // a swap takes two instructions less than a comparison with one
		l.wait()
	}
}

// TryLock locks l if it is free, and reports whether it did.
func (l *Lock) TryLock() bool { return l.held.Swap(1) == 0 }

func (l *Lock) Unlock() { mmap.StoreRelease(&l.held, 0) }

// wait yields the processor, perhaps to the holder. If the holder stays in a system call, wait
// sleeps for longer and longer. It does not use time.Sleep: in a bubble of testing/synctest, that
// would wait for the goroutines in line, which wait for this one.
func (l *Lock) wait() {
	const yields, longest = 256, time.Millisecond
	l.line.Lock()
	defer l.line.Unlock()
	pause := 16 * time.Microsecond
	for i := 0; l.held.Swap(1) != 0; i++ {
		if i < yields {
			runtime.Gosched()
			continue
		}
		sleep(pause)
		pause = min(2*pause, longest)
	}
}
