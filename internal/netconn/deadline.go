package rsocket

import (
	"context"
	"os"
	"sync"
	"time"
)

// deadline is the deadline of one kind of call. Calls wait with its context, so they need no
// context or timer of their own.
type deadline struct {
	mu     sync.Mutex // guards the fields below
	at     time.Time
	timer  *time.Timer
	ctx    *expiry
	closed bool // for good
}

func (d *deadline) init() { d.ctx = newExpiry() }

// expiry returns the context that ends with the deadline. Once it has ended, a later
// deadline gets another context.
func (d *deadline) expiry() *expiry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}

func (d *deadline) isOver() bool { return d.expiry().Err() != nil }

// set moves the deadline; the zero time is none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	// If t has no monotonic reading and the wall clock is set back, the timer would find that t has
	// not come yet.
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

// expired is the timer's function. If the timer was stopped too late, the deadline is another one.
func (d *deadline) expired() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Until(d.at) <= 0 {
		d.ctx.expire()
	}
}

// interrupt ends the waits for this deadline without passing it.
func (d *deadline) interrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waits := d.ctx; waits.Err() == nil {
		d.ctx = newExpiry()
		waits.expire()
	}
}

func (d *deadline) renew() {
	if d.ctx.Err() != nil {
		d.ctx = newExpiry()
	}
}

// close ends all waits, now and later.
func (d *deadline) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.ctx.expire()
}

// expiry is a context that ends when expire is called. It needs no goroutine, and many
// calls share it.
type expiry struct {
	done chan struct{}

	mu    sync.Mutex // guards after
	after func()     // called when done is closed
}

func newExpiry() *expiry { return &expiry{done: make(chan struct{})} }

// expire ends the context.
func (e *expiry) expire() {
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
func (e *expiry) Done() <-chan struct{} { return e.done }

// Err implements [context.Context].
func (e *expiry) Err() error {
	select {
	case <-e.done:
		return os.ErrDeadlineExceeded
	default:
		return nil
	}
}

// Deadline implements [context.Context].
func (e *expiry) Deadline() (at time.Time, ok bool) { return at, false }

// Value implements [context.Context].
func (e *expiry) Value(any) any { return nil }

// AfterFunc lets [context.AfterFunc] do without a goroutine. There is one function at a
// time: that of the call that waits for events.
func (e *expiry) AfterFunc(f func()) (stop func() bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Err() != nil {
		go f()
		return func() bool { return false }
	}
	e.after = f
	return e.stop
}

func (e *expiry) stop() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	waited := e.after != nil && e.Err() == nil
	e.after = nil
	return waited
}

var _ context.Context = (*expiry)(nil)
