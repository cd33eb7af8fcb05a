package rdmatest

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
)

// Device is an RDMA device with one port, on a network device of its own. Each opening
// of it has objects of its own, as with a kernel.
type Device struct {
	fabric *Fabric
	host   *Host
	kind   Kind
	info   kindInfo
	name   string
	index  uint32
	addrs  []netip.Addr
	gids   [][16]byte
	lid    uint16 // on InfiniBand, the first of two
	rules  rules
	verbs  *fakeverbs.Device

	faults  faults
	stalled bool           // guarded by the fabric's lock, as are the fields below
	cutLIDs [1 << lmc]bool // nothing arrives at them
	busy    time.Time      // when the port will have sent its packets
	removed bool           // it is off the list
	gone    bool           // and not found by its index either
}

func (f *Fabric) addDevice(h *Host, o *DeviceOptions) *Device {
	d := &Device{fabric: f, host: h, kind: o.Kind, name: o.Name, addrs: slices.Clone(o.Addrs), index: nextIndex()}
	if d.name == "" {
		d.name = freeName(f, d.kind)
	}
	if d.addrs == nil {
		d.addrs = []netip.Addr{freeAddr(f)}
	}
	d.info = kinds[d.kind]
	d.verbs = fakeverbs.NewDevice(d.info.driver)
	d.verbs.NodeGUID = reversed(d.guid())
	if o.RoCE && d.info.roce != nil {
		d.info = d.info.onRoCE()
		d.verbs.SetRoCE()
	}
	d.rules = d.info.rules
	d.gids = [][16]byte{{0: 2, 4: byte(d.index >> 8), 5: byte(d.index)}} // the MAC
	if !d.info.iwarp {
		d.gids = [][16]byte{linkLocal(d.index)}
		for _, a := range d.addrs {
			d.gids = append(d.gids, a.As16())
		}
	}
	if o.InfiniBand && d.info.infiniBand {
		d.lid = uint16(d.index%(mostLIDs>>lmc)+1) << lmc
		d.verbs.SetInfiniBand(d.lid, lmc)
	}
	d.verbs.SetGIDs(d.gids...)
	return d
}

const (
	// mostLIDs is how many LIDs there are that are no group's.
	mostLIDs = 0xbfff
	// lmc gives each port two LIDs, which two paths of a subnet lead to.
	lmc = 1
)

func linkLocal(index uint32) [16]byte {
	return [16]byte{0: 0xfe, 1: 0x80, 8: 2, 11: 0xff, 12: 0xfe, 14: byte(index >> 8), 15: byte(index)}
}

// meets reports whether devices like these can be connected to each other.
func (d *Device) meets(other *Device) bool {
	return d.kind == other.kind && d.info.iwarp == other.info.iwarp
}

// Name is the name that package uverbs opens the device by.
func (d *Device) Name() string { return d.name }

// Kind is the kind of the device.
func (d *Device) Kind() Kind { return d.kind }

// Host is the host that the device is in.
func (d *Device) Host() *Host { return d.host }

// Addrs are the addresses of the device's network device.
func (d *Device) Addrs() []netip.Addr { return slices.Clone(d.addrs) }

// open makes an opening.
func (d *Device) open() (ioctl.File, error) {
	k := d.verbs.Open()
	k.InBubble = true
	k.Rang, k.Pin, k.Refuse = d.fabric.rang, d.host.pin, d.faults.refuse
	return k, nil
}

// Host is a machine of a fabric.
type Host struct {
	fabric  *Fabric
	devices []*Device

	mu     sync.Mutex // guards the fields below
	pinned int64
	limit  int64
	limits bool
}

func (f *Fabric) addHost(o *HostOptions, kind Kind) {
	h := &Host{fabric: f}
	f.hosts = append(f.hosts, h)
	devices := o.Devices
	if devices == nil {
		devices = make([]DeviceOptions, 1)
	}
	for i := range devices {
		d := devices[i]
		d.Kind = cmp.Or(d.Kind, kind, defaultKind)
		h.devices = append(h.devices, f.addDevice(h, &d))
	}
	f.devices = append(f.devices, h.devices...)
}

// Addr is the first address of the first device.
func (h *Host) Addr() string { return h.devices[0].Addrs()[0].String() }

// Device returns the device of a number; the first is 0. It panics when there is none.
func (h *Host) Device(i int) *Device { return h.devices[i] }

// Devices returns all devices.
func (h *Host) Devices() []*Device { return append([]*Device(nil), h.devices...) }

// SetMemlock limits how many bytes the host's programs may have registered, in pages.
// Registering more is ENOMEM, as beyond RLIMIT_MEMLOCK. A negative number is no limit.
func (h *Host) SetMemlock(bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit, h.limits = bytes, bytes >= 0
}

// Context returns a copy of ctx that belongs to the host: a connection that is dialed with it, by packages rdmacm,
// rsocket and msg, leaves from a device of the host. A source address that the program chooses
// itself is preferred.
func (h *Host) Context(ctx context.Context) context.Context { return kernel.WithSource(ctx, h.source) }

// source is the address that the host reaches another one from.
func (h *Host) source(dst netip.Addr) netip.Addr {
	to := h.fabric.owner(dst.Unmap())
	if to == nil {
		return netip.Addr{}
	}
	for _, d := range h.devices {
		if d.meets(to) && !d.isRemoved() {
			return d.addrLike(dst)
		}
	}
	return h.devices[0].addrs[0]
}

// Kill ends the host's programs, as SIGKILL does, with all that they have on its devices. The
// host stays: its kernel ends their connections, frees their objects and their memory, and
// refuses connections to them, and other programs may open the devices. The goroutines of the test
// that stand for the dead programs find their devices gone, as after Remove. Objects that they don't
// close is no error of the test.
func (h *Host) Kill() {
	h.fabric.mu.Lock()
	h.fabric.manager.killed(h)
	h.fabric.mu.Unlock()
	for _, d := range h.devices {
		d.verbs.Kill()
	}
}

func (h *Host) pin(bytes int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytes > 0 && h.limits && h.pinned+bytes > h.limit {
		return syscall.ENOMEM
	}
	h.pinned += bytes
	return nil
}

// mistake is something that a device ends a connection for, by the queue pair that
// noticed. One that is being closed notices nothing: it has no receives any more.
func (f *Fabric) mistake(p *pair, format string, args ...any) {
	state := p.qp.State()
	if f.strict && !p.d.stalled && state != abi.IB_QPS_RESET && state != abi.IB_QPS_ERR {
		f.t.Errorf("rdmatest: %s: QP %d: %s", p.d.name, p.qp.Num, fmt.Sprintf(format, args...))
	}
}

// SetLink takes the port down or up. Programs get an event, and the port says so. While it
// is down, connections over RoCE try again as often as their retry counts say, and those over iWARP wait.
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
// their calls to it fail with EIO, and so do calls that wait for its events.
// Connections get the event DEVICE_REMOVAL. Nobody finds the device any more. Programs close
// their objects on it, as ever.
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

// StallReceives makes the device find no receive for any message, as if nobody posted any,
// until resume is called: over RoCE the sender's queue pair tries again as often as its RNR retry count says,
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
