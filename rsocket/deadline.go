package rsocket

import (
	"sync"
	"time"
)

// deadline is the end of the time that one kind of call has. Calls wait with the moment of
// its expiry, so none makes a context or a timer of its own.
type deadline struct {
	mu     sync.Mutex // guards what follows
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
	// The wall clock may be set back before a time that has no monotonic reading, and the
	// timer would then find it still to come.
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

// expired is what the timer calls. A timer that was stopped too late finds another
// deadline.
func (d *deadline) expired() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Until(d.at) <= 0 {
		d.expiry.come()
	}
}

// interrupt ends the waits for this deadline, which is still to come.
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

// close lets no call wait from now on.
func (d *deadline) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.expiry.come()
}
