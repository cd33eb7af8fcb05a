package rsocket

import (
	"sync"
	"time"
)

// deadline is the deadline of one kind of call. Calls wait with its expiry, so they need no context or timer
// of their own.
type deadline struct {
	mu     sync.Mutex // guards the fields below
	at     time.Time
	timer  *time.Timer
	expiry *moment
	closed bool // for good
}

func (d *deadline) init() { d.expiry = newMoment() }

// moment is when the deadline expires. A later deadline has another moment once this one
// has come.
func (d *deadline) moment() *moment {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expiry
}

func (d *deadline) isOver() bool { return d.moment().Err() != nil }

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
		d.expiry.come()
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
		d.expiry.come()
	}
}

// interrupt ends the waits for this deadline without passing it.
func (d *deadline) interrupt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if waits := d.expiry; waits.Err() == nil {
		d.expiry = newMoment()
		waits.come()
	}
}

func (d *deadline) renew() {
	if d.expiry.Err() != nil {
		d.expiry = newMoment()
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
	d.expiry.come()
}
