package wait

import (
	"context"
	"sync/atomic"
	"time"
)

// idleTime is how long the background waits after a call of [Await] before it acquires the
// turn. Usually the next call comes sooner and need not take the turn from the background.
const idleTime = 20 * time.Millisecond

// background holds a turn while no waiter does. It has a goroutine only while it works.
type background struct {
	turn     *Turn
	worker   Worker
	followed atomic.Int32  // waiters that want the turn
	working  atomic.Bool   // the background holds the turn
	ticking  atomic.Bool   // the timer runs
	stopped  atomic.Bool   // the background acquires the turn no more
	retired  chan struct{} // closed when nobody will release the turn
	timer    *time.Timer

	// The holder of the turn owns these.
	acquired uint64 // how often a waiter acquired the turn
	seen     uint64 // acquired, as of the last look
}

// StartBackground makes w work in the background while no call of [Await] has the turn.
// [Turn.StopBackground] or [Turn.DropBackground] ends that.
func (t *Turn) StartBackground(w Worker) {
	b := &background{turn: t, worker: w, retired: make(chan struct{})}
	t.background = b
	b.ticking.Store(true)
	b.timer = time.AfterFunc(time.Hour, b.run)
	b.timer.Reset(idleTime) // only now, because run uses the timer
}

// StopBackground ends the work in the background, and acquires the turn for good. It waits
// for the holder, which must have a reason to release the turn. It does nothing if the
// background has not been started or has been stopped.
func (t *Turn) StopBackground() {
	b := t.background
	if b == nil || b.stopped.Swap(true) {
		return
	}
	t.wake()
	_ = t.Acquire(context.Background(), b.retired)
	b.timer.Stop()
}

// DropBackground lets the background acquire the turn no more. Unlike StopBackground it
// does not wait for the holder.
func (t *Turn) DropBackground() {
	if b := t.background; b != nil {
		b.stopped.Store(true)
		b.timer.Stop()
	}
}

// InBackground reports whether the background has the turn.
func (t *Turn) InBackground() bool { return t.background != nil && t.background.working.Load() }

// retire notes that the turn will not be released. The caller holds it.
func (t *Turn) retire() {
	if t.background != nil {
		close(t.background.retired)
	}
}

// schedule starts the timer, unless it runs.
func (b *background) schedule() {
	if b.ticking.CompareAndSwap(false, true) && !b.stopped.Load() {
		b.timer.Reset(idleTime)
	}
}

// interrupt makes the background release the turn to a waiter. interrupt(-1) takes that
// back.
func (b *background) interrupt(waiters int32) {
	b.followed.Add(waiters)
	if waiters > 0 && b.working.Load() {
		b.turn.wake()
	}
}

// run acquires the turn and works, if no waiter has had the turn since the last run.
func (b *background) run() {
	t := b.turn
	b.ticking.Store(false) // a Release from here on starts the timer
	if !t.TryAcquire() {
		return
	}
	if b.stopped.Load() {
		t.Release()
		return
	}
	if b.seen != b.acquired {
		b.seen = b.acquired
		t.Release()
		return
	}
	b.working.Store(true)
	for b.followed.Load() == 0 && !b.stopped.Load() {
		t.sleeping.Store(true)
		if _, err := b.worker.Work(context.Background()); err == ErrRetire {
			b.working.Store(false)
			t.retire()
			return
		} else if err != nil {
			break // the next waiter gets the same error
		}
	}
	b.working.Store(false)
	t.Release()
}
