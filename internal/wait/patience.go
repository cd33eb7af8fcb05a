package wait

import (
	"runtime"
	"sync/atomic"
	"time"
)

// patience decides whether a waiter blocks its thread in ppoll for a moment before it
// parks. A goroutine that the netpoller wakes pays for epoll, and twice for the
// scheduler. A goroutine that returns from ppoll continues at once. Blocking pays only
// if peers answer within that moment, so each time it was in vain, more of the next
// waits park at once.
type patience struct {
	skip  uint8 // how many of the next waits park at once
	grown uint8 // how many it was last time
	turn  uint8 // waits since the scheduler last ran
}

const (
	// aMoment is longer than a message takes to and fro.
	aMoment     = 500 * time.Microsecond
	mostSkipped = 64
	turnAfter   = 16
)

// held counts the threads that are blocked. At most GOMAXPROCS - 1 may be, so that
// other goroutines can run meanwhile.
var (
	held    atomic.Int32
	maxHeld = int32(runtime.GOMAXPROCS(0)) - 1
)

// await returns when there is something to read, or when it is better to park.
func (p *patience) await(f Source) {
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
	// If a goroutine runs for 10 ms without being scheduled, the runtime's monitor, which
	// looks every 20 µs, takes its processor at each system call.
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
