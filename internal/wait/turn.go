package wait

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrEnded is returned by [Await] and [Turn.Acquire] when their end channel was ready first.
var ErrEnded = errors.New("the wait has been ended")

// ErrRetire is returned by [Worker.Work] when there will be no more work. The turn is then
// never released.
var ErrRetire = errors.New("there will be no more work")

// Turn is a lock that one of several waiters holds while it works for all of them. Unlike a
// mutex, it can be waited for together with other channels. See [Await].
//
// A turn can't be acquired before Init.
type Turn struct {
	held       atomic.Bool
	released   chan struct{} // holds a token after a Release; wakes one waiter
	sleeping   atomic.Bool   // the holder notices a change only if it is woken
	wake       func()        // ends the holder's sleep, or the next one
	background *background   // nil unless StartBackground was called
}

// Worker does the work of the holder of a turn.
type Worker interface {
	// Work handles the events that have occurred. If there are none, it sleeps until
	// an event, a wake-up or the end of ctx. It may return early. done reports that the
	// wait of the caller is over, without a value. After an error the wait is over too.
	Work(ctx context.Context) (done bool, err error)
}

// Init prepares the turn. wake ends the holder's sleep, or the next one if the holder does
// not sleep. It may be nil if Wake is not used.
func (t *Turn) Init(wake func()) {
	t.released = make(chan struct{}, 1)
	t.wake = wake
}

// TryAcquire acquires the turn if it is free, and reports whether it did.
func (t *Turn) TryAcquire() bool { return t.released != nil && t.held.CompareAndSwap(false, true) }

// Acquire waits for the turn. It returns ctx.Err() when ctx ends first, and [ErrEnded] when
// it receives from end first.
func (t *Turn) Acquire(ctx context.Context, end <-chan struct{}) error {
	// Usually the turn is free, and TryAcquire costs less than a select.
	for !t.TryAcquire() {
		select {
		case <-t.released:
		case <-end:
			return ErrEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Release releases the turn and wakes one waiter. If another goroutine acquires the turn
// before that waiter does, the waiter sleeps on until the next Release.
func (t *Turn) Release() {
	t.sleeping.Store(false)
	t.held.Store(false)
	select {
	case t.released <- struct{}{}:
	default:
	}
	if t.background != nil {
		t.background.schedule()
	}
}

// Wake makes the holder of the turn check its wait again. It is called after a change that
// may end a wait and that is not a result of Work. It is cheap while the holder does not
// sleep. Waiters that follow need no wake-up, because they receive from their channels.
func (t *Turn) Wake() {
	if t.sleeping.Load() {
		t.wake()
	}
}

// IsSleeping reports whether the holder sleeps or is about to.
func (t *Turn) IsSleeping() bool { return t.sleeping.Load() }

// Awake notes that the holder will check its wait again before it sleeps, so that Wake need
// not wake it. Only the holder may call it, from Work.
func (t *Turn) Awake() { t.sleeping.Store(false) }

// Await returns a value received from ready. It returns [ErrEnded] when end is closed
// first, and ctx.Err() when ctx ends first. end may be nil.
//
// While it waits, it acquires the turn if that is free, and then calls w.Work until its own
// wait is over. It returns what Work returned if Work ended the wait.
func Await[T any](ctx context.Context, t *Turn, w Worker, ready <-chan T, end <-chan struct{}) (v T, err error) {
	// A select of several channels costs as much as all else here. It is avoided until
	// the goroutine has to wait for another.
	select {
	case v = <-ready:
		return v, nil
	default:
	}
	if t.TryAcquire() {
		if v, over, err := lead(ctx, t, w, ready, end); over {
			return v, err
		}
	}
	return follow(ctx, t, w, ready, end)
}

// lead works for all waiters until its own wait is over. If it is not over on return, the
// turn has been retired.
func lead[T any](ctx context.Context, t *Turn, w Worker, ready <-chan T, end <-chan struct{}) (v T, over bool, err error) {
	if t.background != nil {
		t.background.acquired++
	}
	for {
		t.sleeping.Store(true) // before the check, so that a change after it calls wake
		if v, over, err = check(ctx, ready, end); over {
			break
		}
		if over, err = w.Work(ctx); err == ErrRetire {
			t.retire()
			return v, false, nil
		}
		if over = over || err != nil; over {
			break
		}
	}
	t.Release()
	return v, true, err
}

// check reports whether a wait is over, and how it ended.
func check[T any](ctx context.Context, ready <-chan T, end <-chan struct{}) (v T, over bool, err error) {
	select {
	case v = <-ready:
		return v, true, nil
	default:
	}
	if end != nil && isClosed(end) {
		return v, true, ErrEnded
	}
	err = ctx.Err()
	return v, err != nil, err
}

// follow is Await while another goroutine has the turn.
func follow[T any](ctx context.Context, t *Turn, w Worker, ready <-chan T, end <-chan struct{}) (v T, err error) {
	if t.background != nil {
		t.background.interrupt(1)
		defer t.background.interrupt(-1)
	}
	for {
		if t.TryAcquire() {
			if v, over, err := lead(ctx, t, w, ready, end); over {
				return v, err
			}
		}
		select {
		case v = <-ready:
			return v, nil
		case <-ctx.Done():
			return v, ctx.Err()
		case <-end:
			return v, ErrEnded
		case <-t.released:
		}
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
