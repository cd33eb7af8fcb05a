package uverbs

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/internal/ioctl"
)

// patience decides whether a waiter blocks its thread for a moment before it parks. A
// goroutine that the netpoller wakes pays for epoll, and twice for the scheduler. A
// goroutine that returns from a system call goes on at once. Blocking pays where peers
// answer within the moment, so patience shrinks each time no event came.
type patience struct {
	skip  uint8 // so many waits park at once
	grown uint8 // how many it was last time
	turn  uint8 // waits since the scheduler was given one
}

const (
	// aMoment is longer than a message takes to and fro.
	aMoment     = 500 * time.Microsecond
	mostSkipped = 64
	turnAfter   = 16
)

// held is how many threads are blocked like that: at most GOMAXPROCS - 1, so that other
// goroutines can run meanwhile.
var (
	held    atomic.Int32
	maxHeld = int32(runtime.GOMAXPROCS(0)) - 1
)

// await returns when there is something to read, or when it is better to park.
func (p *patience) await(f ioctl.EventFile) {
	if p.skip > 0 {
		p.skip--
		return
	}
	if held.Add(1) > maxHeld {
		held.Add(-1)
		return
	}
	p.learn(f.Await(aMoment))
	held.Add(-1)
	// From a goroutine that is not scheduled for 10 ms, the runtime's monitor takes
	// the processor at each system call that it finds it in, and looks every 20 µs.
	if p.turn++; p.turn%turnAfter == 0 {
		runtime.Gosched()
	}
}

func (p *patience) learn(came bool) {
	if came {
		p.grown = 0
		return
	}
	p.grown = min(max(1, 2*p.grown), mostSkipped)
	p.skip = p.grown
}
