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
	inOrder     bool // also devices without order
	leakTimeout time.Duration
	faults      faults // of the connection manager
	hosts       []*Host
	devices     []*Device // of all hosts

	mu      sync.Mutex // guards the fields below, and the packets on the way
	wire    wire
	random  *rand.Rand
	pairs   map[*fakeverbs.QP]*pair
	holding []*fakeverbs.Kernel // openings whose lock pump holds
	route   route               // of the pair that pump is called for
	manager manager
	uplink  func(Datagram)                                 // to the network outside, or nil
	joining func(own, group netip.Addr, member bool) error // in the network outside, or nil

	paused    chan struct{} // nil if not paused; closed when something has been sent
	anything  bool          // paused is closed
	held      []func()      // datagrams that arrive after the pause
	overtaken overtaken
	unwritten []*pair          // pairs with receive completions to write, during pump
	cuts      map[[2]*Host]int // number of partitions between two hosts
}

// Format implements [fmt.Formatter]. It prints how many hosts the fabric has.
func (f *Fabric) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "fabric of %d hosts", len(f.hosts)) }

// New creates a fabric with the default options: two hosts that have one device each. It exists until
// the test ends.
func New(t TB) *Fabric {
	t.Helper()
	return NewWith(t, nil)
}

// NewWith creates a fabric with options, which may be nil. It exists until the test ends.
func NewWith(t TB, o *Options) *Fabric {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	hosts := o.Hosts
	if hosts == nil {
		hosts = make([]HostOptions, 2)
	}
	f := &Fabric{t: t, strict: o.Strict, endless: o.Endless, inOrder: o.InOrder, leakTimeout: cmp.Or(o.LeakTimeout, 100*time.Millisecond), random: rand.New(rand.NewPCG(o.Seed, 1)), pairs: make(map[*fakeverbs.QP]*pair),
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

// Host returns the host with the given number, counted from 0. It panics if the number is out of range.
func (f *Fabric) Host(i int) *Host { return f.hosts[i] }

// Hosts returns all hosts.
func (f *Fabric) Hosts() []*Host { return append([]*Host(nil), f.hosts...) }

// Devices returns the devices of all hosts.
func (f *Fabric) Devices() []*Device { return append([]*Device(nil), f.devices...) }

// owner returns the device on the interface that has an address, or nil.
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

// byGID returns the device that has a GID, or nil.
func (f *Fabric) byGID(gid [16]byte) *Device {
	if gid == [16]byte{} {
		return nil
	}
	for _, d := range f.devices {
		for _, own := range d.gidTable() {
			if own == gid {
				return d
			}
		}
	}
	return nil
}

// at returns the device that a packet to an address reaches, or nil. On InfiniBand the LID
// identifies the device. On RoCE the sender needs a GID.
func (f *Fabric) at(from *Device, sgid uint8, dgid [16]byte, dlid uint16) *Device {
	switch {
	case from.subnet != nil:
		return f.routed(from.subnet.Route(dlid))
	case from.verbs.IsInfiniBand():
	case from.hasGID(int(sgid)):
		return f.byGID(dgid)
	default:
		return nil
	}
	for _, d := range f.devices {
		if d.lid == dlid&^(1<<lmc-1) && !d.isCut(dlid) {
			return d
		}
	}
	return nil
}

// routed returns the device with a port of a subnet, or nil.
func (f *Fabric) routed(p SubnetPort) *Device {
	for _, d := range f.devices {
		if p != nil && d.subnet == p {
			return d
		}
	}
	return nil
}

// after calls do with the lock held, at once if d is 0, or else after d.
func (f *Fabric) after(d time.Duration, do func()) {
	if d <= 0 {
		do()
		return
	}
	f.later(d, do)
}

// later calls do with the lock held, after d.
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

// lowest reserves and returns the first free name. The lock is held.
func lowest[T comparable](f *Fabric, name func(i int) T) T {
	for i := 0; ; i++ {
		if n := name(i); registry.used[n] == nil {
			registry.used[n] = f
			return n
		}
	}
}

// nextIndex returns an unused device index for netlink. As in a kernel, an index is never reused.
func nextIndex() uint32 { return kernel.FirstIndex + lastIndex.Add(1) }

var lastIndex atomic.Uint32

func freeName(f *Fabric, k Kind) string {
	return lowest(f, func(i int) string { return fmt.Sprintf(kinds[k].nameFormat, k, i) })
}

// freeAddr returns an unused address of 198.18.0.0/15, which is reserved for tests of networks.
func freeAddr(f *Fabric) netip.Addr {
	return lowest(f, func(i int) netip.Addr {
		i++
		return netip.AddrFrom4([4]byte{198, byte(18 + i>>16), byte(i >> 8), byte(i)})
	})
}

// Left returns the descriptions of objects that were not closed: those of the devices and of the
// connection manager, open files of both, and registered memory.
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

// Objects lists the objects that programs have on the device. It omits the pages of registers that
// a provider keeps while its device is open.
func (d *Device) Objects() (objects []string) {
	for _, k := range d.verbs.Openings() {
		objects = append(objects, k.Alive()...)
	}
	return slices.DeleteFunc(objects, func(name string) bool { return strings.HasPrefix(name, "UAR ") })
}

// nothingLeft reports the objects that are left at the end of the test, faults that never happened,
// and violations by a provider of the rules for a device's queues and registers.
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

// noneIdle reports the requested faults that did not happen.
func (f *Fabric) noneIdle() {
	idle := f.faults.idle()
	for _, d := range f.devices {
		idle = append(idle, d.faults.idle()...)
	}
	for _, fault := range idle {
		f.t.Errorf("rdmatest: %s: %s never happened; set Fault.Optional to allow that", fault.at, fault.what)
	}
}

// leakPatience limits the wait for goroutines that still run. In a bubble it is the time to wait,
// which costs nothing there.
const leakPatience = time.Minute

// leaks waits for objects that are freed in the background, and returns those that are left. It waits as
// long as a goroutine of the process can run, because that may free something, and for LeakTimeout after
// that. It counts checks instead of measuring time, so that a process that was stopped runs its timers
// first.
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

// SetLatency sets the one-way delay of every message.
func (f *Fabric) SetLatency(d time.Duration) { f.setWire(func(w *wire) { w.latency = d }) }

// SetBandwidth limits the bandwidth of each port, in bytes per second. Zero means no limit. The queue pairs of a port take
// turns, one message each.
func (f *Fabric) SetBandwidth(bytes int64) { f.setWire(func(w *wire) { w.bandwidth = bytes }) }

// SetLoss makes the network lose a fraction of all messages, from 0 to 1. Reliable connections
// retransmit. Over RoCE the attributes of the queue pair set the timeout and the number of retries.
// Over iWARP there is no limit.
func (f *Fabric) SetLoss(part float64) { f.setWire(func(w *wire) { w.loss = part }) }

// SetReordering makes the network deliver a fraction of all datagrams, from 0 to 1, after the next
// one. If the last datagram is one of these, it is held until another one is sent or reordering is
// turned off. On a kind without an order, it delays this fraction of all messages and
// completions by up to a millisecond.
func (f *Fabric) SetReordering(part float64) {
	f.setWire(func(w *wire) { w.reordered = part })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.overtaken.release(f)
}

// Partition interrupts the network between two hosts in both directions until heal is called. Their
// links stay up, and both can reach all other hosts. Partitions may overlap.
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

// isLinked reports whether the network devices of two devices can reach each other.
func (f *Fabric) isLinked(a, b *Device) bool {
	return a.verbs.Up() && b.verbs.Up() && (a.host == b.host || f.cuts[[2]*Host{a.host, b.host}] == 0)
}

// hasPath reports whether data gets from one device to another.
func (f *Fabric) hasPath(a, b *Device) bool { return a.works() && b.works() && f.isLinked(a, b) }

func (f *Fabric) loses() bool { return f.wire.loss > 0 && f.random.Float64() < f.wire.loss }

// delayed returns when a message arrives that leaves at a time.
func (f *Fabric) delayed(left time.Time) time.Time {
	if f.wire.latency == 0 {
		return left // as Add would, which takes longer
	}
	return left.Add(f.wire.latency)
}
