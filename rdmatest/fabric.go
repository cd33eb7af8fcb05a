package rdmatest

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"sync"
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

	mu      sync.Mutex // guards what follows, and what is on the way
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

// New makes a fabric of two hosts with a device of kind RXE each. It stays until the test
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

// at finds the device of an address, by its LID on InfiniBand, or nil.
func (f *Fabric) at(from *Device, dgid [16]byte, dlid uint16) *Device {
	if from.lid == 0 {
		return f.byGID(dgid)
	}
	for _, d := range f.devices {
		if d.lid == dlid {
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
