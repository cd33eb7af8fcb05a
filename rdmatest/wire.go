package rdmatest

import (
	"sync"
	"time"
)

// wire is what the network does to all that goes over it.
type wire struct {
	latency         time.Duration
	bandwidth       int64 // bytes per second of a port; 0: no limit
	loss, reordered float64
}

func (f *Fabric) setWire(set func(*wire)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set(&f.wire)
}

// SetLatency has everything take this long on its way, one way.
func (f *Fabric) SetLatency(d time.Duration) { f.setWire(func(w *wire) { w.latency = d }) }

// SetBandwidth has each port send no more than that many bytes a second. Zero is no limit.
func (f *Fabric) SetBandwidth(bytes int64) { f.setWire(func(w *wire) { w.bandwidth = bytes }) }

// SetLoss loses that part of all messages, from 0 to 1. A reliable connection sends again:
// one of RoCE after the time and as often as its queue pair says, one of iWARP for as long as it takes.
func (f *Fabric) SetLoss(part float64) { f.setWire(func(w *wire) { w.loss = part }) }

// SetReordering has that part of all datagrams, from 0 to 1, arrive after the next one.
// The last of all datagrams stays until there is another, or reordering ends.
func (f *Fabric) SetReordering(part float64) {
	f.setWire(func(w *wire) { w.reordered = part })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.overtaken.release(f)
}

// Partition cuts the way between two hosts, both ways, until heal is called. Their links stay up,
// and each of them reaches the others. Partitions may overlap.
func (f *Fabric) Partition(a, b *Host) (heal func()) {
	f.divide(a, b, 1)
	return sync.OnceFunc(func() { f.divide(a, b, -1) })
}

func (f *Fabric) divide(a, b *Host, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cuts[[2]*Host{a, b}] += n
	f.cuts[[2]*Host{b, a}] += n
	f.pumpAll()
}

// isLinked reports whether there is a way between the network devices of two devices.
func (f *Fabric) isLinked(a, b *Device) bool {
	return a.verbs.Up() && b.verbs.Up() && (a.host == b.host || f.cuts[[2]*Host{a.host, b.host}] == 0)
}

// hasPath reports whether there is a way between two devices.
func (f *Fabric) hasPath(a, b *Device) bool { return !a.removed && !b.removed && f.isLinked(a, b) }

func (f *Fabric) loses() bool { return f.wire.loss > 0 && f.random.Float64() < f.wire.loss }

// leave says when the port will have sent n bytes more.
func (d *Device) leave(now time.Time, n int) time.Time {
	if d.fabric.wire.bandwidth <= 0 {
		return now
	}
	if d.busy.Before(now) {
		d.busy = now
	}
	d.busy = d.busy.Add(time.Duration(int64(n) * int64(time.Second) / d.fabric.wire.bandwidth))
	return d.busy
}
