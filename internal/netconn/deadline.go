package netconn

import (
	"context"
	"os"
	"sync"
	"time"
)

// Deadline is the deadline of one kind of call. Calls wait with its context, so they need no context or
// timer for themselves.
type Deadline struct {
	mu     sync.Mutex // guards the fields below
	at     time.Time
	timer  *time.Timer
	ctx    *Expiry
	closed bool // set by Close
}

// Init initializes d without a deadline. It must be called before all other methods.
func (d *Deadline) Init() { d.ctx = newExpiry() }

// Expiry returns a context that ends with the deadline. After it has ended, Set creates a new context
// for a later deadline.
func (d *Deadline) Expiry() *Expiry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}

// IsOver reports whether the deadline has passed.
func (d *Deadline) IsOver() bool { return d.Expiry().Err() != nil }

// Set sets the deadline. The zero time means no deadline.
func (d *Deadline) Set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	// If t has no monotonic reading and the wall clock is set back, the timer's function would find
	// that t has not been reached.
	left := time.Until(t)
	if d.at = t; !t.IsZero() {
		d.at = time.Now().Add(left)
	}
	switch {
	case t.IsZero():
		d.renew()
	case left <= 0:
		d.ctx.expire()
	case d.timer == nil:
		d.renew()
		d.timer = time.AfterFunc(left, d.expired)
	default:
		d.renew()
		d.timer.Reset(left)
	}
}

// expired is the timer's function. If the timer was stopped too late, the deadline has changed.
func (d *Deadline) expired() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Until(d.at) <= 0 {
		d.ctx.expire()
	}
}

// Interrupt ends all waits as if the deadline had passed, but the deadline stays in effect.
func (d *Deadline) Interrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waits := d.ctx; waits.Err() == nil {
		d.ctx = newExpiry()
		waits.expire()
	}
}

func (d *Deadline) renew() {
	if d.ctx.Err() != nil {
		d.ctx = newExpiry()
	}
}

// Close ends all present and future waits.
func (d *Deadline) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.ctx.expire()
}

// Expiry is a context that ends when expire is called. It needs no goroutine, and many calls can share
// it.
type Expiry struct {
	done chan struct{}

	mu    sync.Mutex // guards after
	after func()     // called when done is closed
}

func newExpiry() *Expiry { return &Expiry{done: make(chan struct{})} }

// expire ends the context.
func (e *Expiry) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Err() != nil {
		return
	}
	close(e.done)
	if e.after != nil {
		go e.after()
	}
}

// Done implements [context.Context].
func (e *Expiry) Done() <-chan struct{} { return e.done }

// Err implements [context.Context].
func (e *Expiry) Err() error {
	select {
	case <-e.done:
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// Deadline implements [context.Context].
func (e *Expiry) Deadline() (at time.Time, ok bool) { return at, false }

// Value implements [context.Context].
func (e *Expiry) Value(any) any { return nil }

// AfterFunc makes [context.AfterFunc] work without a goroutine. There is only one function at a time,
// which belongs to the call that waits for events.
func (e *Expiry) AfterFunc(f func()) (stop func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Err() != nil {
		go f()
		return func() bool { return false }
	}
	e.after = f
	return e.stop
}

func (e *Expiry) stop() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	waited := e.after != nil && e.Err() == nil
	e.after = nil
	return waited
}

var _ context.Context = (*Expiry)(nil)
