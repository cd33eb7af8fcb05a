package rdmatest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/kernel"
)

// Fabric is a network of hosts. Its methods, and those of its hosts and devices, may be
// called concurrently.
type Fabric struct {
	t           TB
	strict      bool
	endless     bool
	leakTimeout time.Duration
	faults      faults // of the connection manager
	hosts       []*Host
	devices     []*Device // of all hosts

	mu      sync.Mutex // guards the fields below, and the packets on the way
	wire    wire
	random  *rand.Rand
	pairs   map[*fakeverbs.QP]*pair
	manager manager

	paused    chan struct{} // nil: not; closed when there was something to carry
	anything  bool          // paused is closed
	held      []func()      // datagrams that arrive after that
	overtaken overtaken
	cuts      map[[2]*Host]int // how many partitions are between two hosts
}

// New makes a fabric of two hosts with a device of soft RoCE each. It stays until the test
// ends.
func New(t TB) *Fabric {
	t.Helper()
	return NewWith(t, nil)
}

// NewWith makes a fabric. It stays until the test ends. Options may be nil.
func NewWith(t TB, o *Options) *Fabric {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	hosts := o.Hosts
	if hosts == nil {
		hosts = make([]HostOptions, 2)
	}
	f := &Fabric{t: t, strict: o.Strict, endless: o.Endless, leakTimeout: cmp.Or(o.LeakTimeout, 100*time.Millisecond), random: rand.New(rand.NewPCG(o.Seed, 1)), pairs: make(map[*fakeverbs.QP]*pair),
		cuts: make(map[[2]*Host]int)}
	f.manager.init(f)
	registry.Lock()
	defer registry.Unlock()
	for i := range hosts {
		f.addHost(&hosts[i], o.Kind)
	}
	remove := kernel.Register(asKernel{f})
	t.Cleanup(func() { f.nothingLeft(); remove(); registry.forget(f) })
	return f
}

// Host returns the host of a number; the first is 0. It panics when there is none.
func (f *Fabric) Host(i int) *Host { return f.hosts[i] }

// Hosts returns all hosts.
func (f *Fabric) Hosts() []*Host { return append([]*Host(nil), f.hosts...) }

// Devices returns the devices of all hosts.
func (f *Fabric) Devices() []*Device { return append([]*Device(nil), f.devices...) }

// owner finds the device of an address, or nil.
func (f *Fabric) owner(a netip.Addr) *Device {
	for _, d := range f.devices {
		for _, own := range d.addrs {
			if own == a {
				return d
			}
		}
	}
	return nil
}

// byGID finds the device that has a GID, or nil.
func (f *Fabric) byGID(gid [16]byte) *Device {
	for _, d := range f.devices {
		for _, own := range d.gids {
			if own == gid {
				return d
			}
		}
	}
	return nil
}

// at finds the device that a packet for an address reaches, by its LID on InfiniBand, or nil.
func (f *Fabric) at(from *Device, dgid [16]byte, dlid uint16) *Device {
	if from.lid == 0 {
		return f.byGID(dgid)
	}
	for _, d := range f.devices {
		if d.lid == dlid&^(1<<lmc-1) && !d.isCut(dlid) {
			return d
		}
	}
	return nil
}

// after does something with the lock held: at once, or in a while.
func (f *Fabric) after(d time.Duration, do func()) {
	if d <= 0 {
		do()
		return
	}
	f.later(d, do)
}

// later does something with the lock held, in a while.
func (f *Fabric) later(d time.Duration, do func()) *time.Timer {
	return time.AfterFunc(d, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		do()
	})
}

// registry keeps the names and addresses of all fabrics of the process apart.
var registry = names{used: make(map[any]*Fabric)}

type names struct {
	sync.Mutex
	used map[any]*Fabric
}

// forget frees the names of a fabric.
func (n *names) forget(f *Fabric) {
	n.Lock()
	defer n.Unlock()
	for name, owner := range n.used {
		if owner == f {
			delete(n.used, name)
		}
	}
}

// lowest takes the first name that is free. The lock is held.
func lowest[T comparable](f *Fabric, name func(i int) T) T {
	for i := 0; ; i++ {
		if n := name(i); registry.used[n] == nil {
			registry.used[n] = f
			return n
		}
	}
}

// nextIndex is a device's for netlink. As with a kernel, no device gets that of another.
func nextIndex() uint32 { return kernel.FirstIndex + lastIndex.Add(1) }

var lastIndex atomic.Uint32

func freeName(f *Fabric, k Kind) string {
	return lowest(f, func(i int) string { return fmt.Sprintf(kinds[k].nameFormat, k, i) })
}

// freeAddr is of 198.18.0.0/15, which is set aside for tests of networks.
func freeAddr(f *Fabric) netip.Addr {
	return lowest(f, func(i int) netip.Addr {
		i++
		return netip.AddrFrom4([4]byte{198, byte(18 + i>>16), byte(i >> 8), byte(i)})
	})
}

// Left lists the objects that were not closed: objects of the devices and of the connection manager,
// openings of both, and memory that is registered.
func (f *Fabric) Left() (left []string) {
	for _, d := range f.devices {
		for _, k := range d.verbs.Openings() {
			for _, leak := range k.Leaks() {
				left = append(left, fmt.Sprintf("%s: %s", d.name, leak))
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(left, f.manager.left()...)
}

// Objects lists the objects that programs have on the device. It leaves out the pages of
// registers that a provider keeps as long as its device is open.
func (d *Device) Objects() (objects []string) {
	for _, k := range d.verbs.Openings() {
		objects = append(objects, k.Alive()...)
	}
	return slices.DeleteFunc(objects, func(name string) bool { return strings.HasPrefix(name, "UAR ") })
}

// nothingLeft reports the objects that are left at the end of the test, faults that never
// struck, and providers' violations of the queues and registers of a device.
func (f *Fabric) nothingLeft() {
	for _, d := range f.devices {
		for _, v := range d.verbs.Violations() {
			f.t.Errorf("rdmatest: %s: %s", d.name, v)
		}
	}
	f.noneIdle()
	if f.endless {
		return
	}
	if left := f.leaks(); len(left) > 0 {
		f.t.Errorf("rdmatest: not closed at the end of the test: %q", left)
	}
}

// noneIdle reports the faults that were to happen and did not.
func (f *Fabric) noneIdle() {
	idle := f.faults.idle()
	for _, d := range f.devices {
		idle = append(idle, d.faults.idle()...)
	}
	for _, fault := range idle {
		f.t.Errorf("rdmatest: %s: %s never happened; set Fault.Optional to allow that", fault.at, fault.what)
	}
}

// leakPatience bounds the wait for goroutines that still run, or for a bubble's time, which costs
// nothing.
const leakPatience = time.Minute

// leaks waits for objects that are freed in the background: as long as a goroutine of the process can run,
// which may be on its way to free something, and for the LeakTimeout of the fabric more. It counts looks
// and not time, so that a process which stood still has run its timers before.
func (f *Fabric) leaks() (left []string) {
	const pause = time.Millisecond
	quiet := time.Duration(0) // how long no goroutine has run
	busy, bubble := false, false
	for end := time.Now().Add(leakPatience); ; time.Sleep(pause) {
		if left = f.Left(); len(left) == 0 {
			return nil
		}
		if !bubble {
			busy, bubble = goroutines()
		}
		if quiet += pause; busy || bubble {
			quiet = 0
		}
		if time.Now().After(end) || quiet > f.leakTimeout {
			return left
		}
	}
}

// goroutines reports whether any goroutine but this one can run, and whether this one is in a bubble
// of testing/synctest.
func goroutines() (busy, bubble bool) {
	b := make([]byte, 64<<10)
	for {
		n := runtime.Stack(b, true)
		if n < len(b) {
			b = b[:n]
			break
		}
		b = make([]byte, 2*len(b))
	}
	own, others, _ := strings.Cut(string(b), "\n\n")
	for block := range strings.SplitSeq(others, "\n\n") {
		head, _, _ := strings.Cut(block, "\n")
		_, state, _ := strings.Cut(head, "[")
		for _, s := range []string{"runn", "syscall", "sleep", "preempted"} { // running, runnable
			busy = busy || strings.HasPrefix(state, s) && !strings.Contains(block, "os/signal.signal_recv")
		}
	}
	head, _, _ := strings.Cut(own, "\n")
	return busy, strings.Contains(head, "synctest bubble")
}

// wire is the behaviour of the network.
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

// SetLatency sets how long every message takes, one way.
func (f *Fabric) SetLatency(d time.Duration) { f.setWire(func(w *wire) { w.latency = d }) }

// SetBandwidth limits each port to that many bytes a second. Zero is no limit.
func (f *Fabric) SetBandwidth(bytes int64) { f.setWire(func(w *wire) { w.bandwidth = bytes }) }

// SetLoss loses that part of all messages, from 0 to 1. A reliable connection sends again:
// one of RoCE after the time and as often as its queue pair says, one of iWARP for as long as it takes.
func (f *Fabric) SetLoss(part float64) { f.setWire(func(w *wire) { w.loss = part }) }

// SetReordering delivers that part of all datagrams, from 0 to 1, after the next one.
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
