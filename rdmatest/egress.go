package rdmatest

import (
	"slices"
	"time"
)

// egress is the sending side of a port. While its bandwidth is limited, the pairs of the device take turns, one message
// each. The fabric's lock guards it.
type egress struct {
	busy    time.Time // until when it is sending
	waiting []*pair   // those that may have something to send, in the order of their turns
	turn    *pair     // the one whose turn it is, during turns
	timer   *time.Timer
}

// mayLeave reports whether it is a pair's turn to send. If not, the pair is pumped when it is.
func (f *Fabric) mayLeave(p *pair, now time.Time) bool {
	o := &p.d.egress
	if !o.busy.After(now) && (o.turn == p || len(o.waiting) == 0) {
		return true
	}
	if p.waits {
		return false
	}
	p.waits = true
	if o.waiting = append(o.waiting, p); len(o.waiting) == 1 {
		f.armPort(p.d, now)
	}
	return false
}

// armPort sets the timer to the time when the port can send again.
func (f *Fabric) armPort(d *Device, now time.Time) {
	if o := &d.egress; o.timer == nil {
		o.timer = time.AfterFunc(o.busy.Sub(now), func() { f.turns(d) })
	} else {
		o.timer.Reset(o.busy.Sub(now))
	}
}

// turns pumps the pairs that wait for the port, until one of them has sent something.
func (f *Fabric) turns(d *Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, now := &d.egress, time.Now()
	for len(o.waiting) > 0 && !o.busy.After(now) {
		p := o.waiting[0]
		o.waiting = slices.Delete(o.waiting, 0, 1)
		p.waits = false
		if f.pairs[p.qp] == p {
			o.turn = p
			f.pump(p)
		}
	}
	o.turn = nil
	if len(o.waiting) > 0 {
		f.armPort(d, now)
	}
}

// leave returns the time when the port will have sent n more bytes.
func (d *Device) leave(now time.Time, n int) time.Time {
	if d.fabric.wire.bandwidth <= 0 {
		return now
	}
	if d.egress.busy.Before(now) {
		d.egress.busy = now
	}
	d.egress.busy = d.egress.busy.Add(time.Duration(int64(n) * int64(time.Second) / d.fabric.wire.bandwidth))
	return d.egress.busy
}
