package rdmatest

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// mistake is something that a device ends a connection for, by the queue pair that
// noticed. One that is being closed notices nothing: it has no receives any more.
func (f *Fabric) mistake(p *pair, format string, args ...any) {
	state := p.qp.State()
	if f.strict && !p.d.stalled && state != abi.IB_QPS_RESET && state != abi.IB_QPS_ERR {
		f.t.Errorf("rdmatest: %s: QP %d: %s", p.d.name, p.qp.Num, fmt.Sprintf(format, args...))
	}
}

// SetLink takes the port down or up. Programs get an event, and the port says so. While it
// is down, connections over RoCE try again as often as they were told, and those over iWARP wait.
func (d *Device) SetLink(up bool) {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	d.verbs.SetLink(up)
	d.fabric.pumpAll()
}

// pumpAll looks at all that may go on now, in the order of the queue pairs' numbers.
func (f *Fabric) pumpAll() {
	for _, d := range f.devices {
		for _, k := range d.verbs.Openings() {
			for _, qp := range k.QueuePairs() {
				if p := f.pairs[qp]; p != nil {
					f.pump(p)
				}
			}
		}
	}
}

// Remove unplugs the device. Programs that have it open get the event DEVICE_FATAL, all
// their calls to it fail with EIO, and what waits for its events ends with that.
// Connections get the event DEVICE_REMOVAL. Nobody finds the device any more. Programs close
// what they had on it, as ever.
func (d *Device) Remove() {
	if !d.stop() {
		return
	}
	d.verbs.Remove() // which rings
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	d.gone = true
	d.fabric.manager.removed(d)
}

// stop takes the device off the list, ends all that it carries, and reports whether that was still to do.
func (d *Device) stop() bool {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	if d.removed {
		return false
	}
	d.removed = true
	for qp, p := range d.fabric.pairs {
		if p.d == d {
			p.end(d.fabric)
			delete(d.fabric.pairs, qp)
		}
	}
	return true
}

func (d *Device) isRemoved() bool {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	return d.removed
}

func (d *Device) isGone() bool {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	return d.gone
}

// StallReceives has the device find no receive for any message, as if nobody posted any,
// until resume is called: over RoCE the sender's queue pair tries again as often as it was told,
// over iWARP the connection ends.
func (d *Device) StallReceives() (resume func()) {
	d.setStalled(true)
	return func() { d.setStalled(false) }
}

func (d *Device) setStalled(stalled bool) {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	d.stalled = stalled
}

// Pause lets nothing arrive that queue pairs send until resume is called, which the test must do.
// The connection manager goes on. stuck is closed when something was sent. A queue pair that fails
// meanwhile loses its sends.
func (f *Fabric) Pause() (stuck <-chan struct{}, resume func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = make(chan struct{})
	f.anything = false
	return f.paused, f.resume
}

func (f *Fabric) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = nil
	held := f.held
	f.held = nil
	for _, arrive := range held {
		arrive()
	}
	f.pumpAll()
}

// isPaused is asked for something that would arrive now.
func (f *Fabric) isPaused() bool {
	if f.paused == nil {
		return false
	}
	if !f.anything {
		f.anything = true
		close(f.paused)
	}
	return true
}

// cut ends a connection in the middle of a message.
func (f *Fabric) cut(p, to *pair, k *packet) {
	part := k.data[:min(k.cut, len(k.data))]
	switch {
	case right(k.w) == 0:
		if r := to.takeRecv(); r != nil {
			scatter(to.qp, r.SGL, part)
			to.qp.Received(r, &abi.IbUverbsWc{Status: abi.IB_WC_WR_FLUSH_ERR}, false)
		}
	case !fetches(k.w) && isOpen(to, k) && len(part) > 0:
		place(to, k.w, part)
	}
	f.manager.broken(p, to)
	for _, e := range []*pair{p, to} {
		e.qp.Break()
		e.end(f)
	}
}
