package perf

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

var origin = time.Now()

// now is a monotonic time in ns. It costs as much as reading the clock does,
// and reads the monotonic one only.
func now() int64 { return int64(time.Since(origin)) }

// Progress counts messages. One end writes it, anybody may read it.
type Progress struct{ n atomic.Int64 }

// Done is how many there were.
func (p *Progress) Done() int64 { return p.n.Load() }

// errTimeUp ends a run of which the time decides.
var errTimeUp = errors.New("the time is up")

// stopwatch is a run of which the time decides: a warm-up, a time that counts,
// and a time for the peer to get there too.
//
// C: catch_alarm
type stopwatch struct {
	counting     atomic.Bool
	began, ended atomic.Int64
	counted      int64 // messages while counting
}

// start ends the run with cancel after the time.
func (w *stopwatch) start(ctx context.Context, total, margin time.Duration, cancel context.CancelCauseFunc) {
	go func() {
		for _, step := range []struct {
			after time.Duration
			do    func()
		}{
			{margin, func() { w.began.Store(now()); w.counting.Store(true) }},
			{total - 2*margin, func() { w.counting.Store(false); w.ended.Store(now()) }},
			{margin, func() { cancel(errTimeUp) }},
		} {
			select {
			case <-ctx.Done():
				return
			case <-time.After(step.after):
				step.do()
			}
		}
	}()
}

// count notes n messages if their time counts.
func (w *stopwatch) count(n int) {
	if w.counting.Load() {
		w.counted += int64(n)
	}
}

// over reports whether the measured interval has ended. A peer whose time ended
// sooner may have left by then; ib_write_lat leaves without a message.
func (w *stopwatch) over() bool { return w.ended.Load() != 0 }

func (w *stopwatch) ns() int64 { return w.ended.Load() - w.began.Load() }
