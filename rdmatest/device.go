package rdmatest

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/verbs"
)

// Device is an RDMA device with one port on its own network device. As with a kernel, each open file
// of the device has its own objects.
type Device struct {
	fabric *Fabric
	host   *Host
	kind   Kind
	info   kindInfo
	name   string
	index  uint32
	addrs  []netip.Addr
	gids   [][16]byte
	subnet SubnetPort // nil: it is in none
	lid    uint16     // the first of the port's two LIDs on InfiniBand without a subnet
	rules  rules
	verbs  *fakeverbs.Device

	faults  faults
	stalled bool           // guarded by the fabric's lock, as are the fields below
	cutLIDs [1 << lmc]bool // LIDs at which nothing arrives
	egress  egress
	removed bool // the kernel does not list it any more
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
	d.verbs.NodeGUID = reversed(verbs.GUID(0x0200_00ff_fe00_0000 | uint64(d.index&0xffffff)))
	if o.RoCE && d.info.roce != nil {
		d.info = d.info.onRoCE()
		d.verbs.SetRoCE()
	}
	d.rules = d.info.rules
	d.gids = [][16]byte{{0: 2, 4: byte(d.index >> 8), 5: byte(d.index)}} // the MAC
	if !d.info.iwarp {
		d.gids = [][16]byte{linkLocal(d.index)}
	}
	if !d.info.iwarp && !d.info.noCM && o.Subnet == nil {
		for _, a := range d.addrs {
			d.gids = append(d.gids, a.As16())
		}
	}
	switch {
	case !d.info.infiniBand:
	case o.Subnet != nil:
		d.join(o.Subnet)
	case o.InfiniBand:
		d.lid = uint16(d.index%(mostLIDs>>lmc)+1) << lmc
		d.verbs.SetInfiniBand(d.lid, lmc)
	}
	d.verbs.SetGIDs(d.gids...)
	return d
}

const (
	// mostLIDs is the number of LIDs that are not multicast LIDs.
	mostLIDs = 0xbfff
	// lmc gives each port two LIDs, which are reached over different paths.
	lmc = 1
)

func linkLocal(index uint32) [16]byte {
	return [16]byte{0: 0xfe, 1: 0x80, 8: 2, 11: 0xff, 12: 0xfe, 14: byte(index >> 8), 15: byte(index)}
}

// meets reports whether devices of these two kinds can be connected to each other.
func (d *Device) meets(other *Device) bool {
	return d.kind == other.kind && d.info.iwarp == other.info.iwarp
}

// reaches reports whether IDs of the device can have a destination, whose device is to, or nil if it is outside or a group.
func (d *Device) reaches(dst netip.Addr, to *Device) bool {
	if to != nil {
		return d.meets(to)
	}
	return (dst.IsMulticast() || d.onWire() && d.fabric.isOutside(dst.As16())) && slices.ContainsFunc(d.addrs, func(own netip.Addr) bool { return own.Is4() == dst.Is4() })
}

// Name returns the name of the device, for uverbs.Open.
func (d *Device) Name() string { return d.name }

// Format implements [fmt.Formatter]. It prints the device's name.
func (d *Device) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "device %s", d.name) }

// Kind returns the kind of the device.
func (d *Device) Kind() Kind { return d.kind }

// Host returns the host of the device.
func (d *Device) Host() *Host { return d.host }

// Addrs returns the addresses of the device's network device.
func (d *Device) Addrs() []netip.Addr {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	return slices.Clone(d.addrs)
}

// open opens the device.
func (d *Device) open() (ioctl.File, error) {
	k := d.verbs.Open()
	k.InBubble = true
	k.Rang, k.Pin, k.PinLimit, k.Refuse = d.fabric.rang, d.host.pin, d.host.memlock, d.faults.refuse
	return k, nil
}

// Host is a machine of a fabric.
type Host struct {
	fabric  *Fabric
	devices []*Device

	mu     sync.Mutex // guards the fields below
	pinned int64
	limit  int64 // in bytes; negative means no limit
}

func (f *Fabric) addHost(o *HostOptions, kind Kind) {
	h := &Host{fabric: f, limit: -1}
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

// Format implements [fmt.Formatter]. It prints the names of the host's devices.
func (h *Host) Format(f fmt.State, _ rune) {
	var names []string
	for _, d := range h.devices {
		names = append(names, d.name)
	}
	fmt.Fprintf(f, "host with %s", strings.Join(names, ", "))
}

// Addr returns the first address of the first device, which has one unless RemoveAddr took it.
func (h *Host) Addr() string { return h.devices[0].Addrs()[0].String() }

// Device returns the device with the given number, counted from 0. It panics if the number is out of range.
func (h *Host) Device(i int) *Device { return h.devices[i] }

// Devices returns all devices.
func (h *Host) Devices() []*Device { return append([]*Device(nil), h.devices...) }

// SetMemlock limits how many bytes of memory the host's programs may have registered, in whole
// pages. As with RLIMIT_MEMLOCK, registering more fails with ENOMEM, and with a limit of 0 any
// registration with EPERM. Queues don't count. A negative number means no limit.
func (h *Host) SetMemlock(bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limit = bytes
}

func (h *Host) memlock() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.limit
}

// Context returns a copy of ctx that belongs to the host. Connections that packages rdmacm,
// rsocket and msg dial with it use a device of the host. A source address that the program
// chooses takes precedence.
func (h *Host) Context(ctx context.Context) context.Context { return kernel.WithSource(ctx, h.source) }

// source returns the address from which the host can reach dst.
func (h *Host) source(dst netip.Addr) netip.Addr {
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	to := h.fabric.owner(dst.Unmap())
	for _, d := range h.devices {
		if d.reaches(dst.Unmap(), to) && !d.removed && len(d.addrs) > 0 {
			return d.addrLike(dst)
		}
	}
	if to == nil {
		return netip.Addr{}
	}
	return h.devices[0].addrLike(dst)
}

// Kill ends the host's programs, like SIGKILL. The host keeps running: its kernel ends the programs'
// connections, frees their objects and their memory, and refuses connections to them. Other programs
// may open the devices. For the goroutines of the test that represent the dead programs, the devices
// are gone, as after Remove. It is not an error of the test if they don't close their objects.
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
	if bytes > 0 && h.limit >= 0 {
		if err := fakeverbs.CheckMemlock(h.pinned+bytes, h.limit); err != nil {
			return err
		}
	}
	h.pinned += bytes
	return nil
}

// mistake reports a program's mistake that makes the device end a connection. p is the queue pair
// that detected it. A queue pair that is being closed detects none, because it has no receives any
// more.
func (f *Fabric) mistake(p *pair, format string, args ...any) {
	state := p.qp.State()
	if f.strict && !p.d.stalled && state != abi.IB_QPS_RESET && state != abi.IB_QPS_ERR {
		f.t.Errorf("rdmatest: %s: QP %d: %s", p.d.name, p.qp.Num, fmt.Sprintf(format, args...))
	}
}

// SetLink takes the port down or up. Programs receive an event, and the port's state changes. While the
// port is down, connections over RoCE retry as often as their retry counts allow, and connections over
// iWARP wait.
func (d *Device) SetLink(up bool) {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	d.verbs.SetLink(up)
	d.fabric.pumpAll()
}

// pumpAll calls pump for all queue pairs that may make progress now, in the order of their numbers.
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

// Remove unplugs the device. It can't be found any more, and connections receive the event
// DEVICE_REMOVAL. The rest is as Linux's driver does it:
//   - Programs that have a card open receive the event DEVICE_FATAL. All their calls to it fail
//     with EIO, and so do calls that wait for its events.
//   - With devices in software there is no such event, and all calls still work, as on Linux 6.12.
//     Connections over iWARP end. On Linux the removal waits until all programs have closed the
//     device. Remove doesn't wait.
//
// Programs must still close their objects on it.
func (d *Device) Remove() {
	if !d.stop() {
		return
	}
	d.verbs.Remove() // this calls Rang
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	d.fabric.manager.drop(func(other *Device) bool { return other == d })
}

// stop removes the device from the list, and ends its connections if programs lose it. It reports
// whether this call was the first to do so.
func (d *Device) stop() bool {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	if d.removed {
		return false
	}
	d.removed = true
	if !d.verbs.LetsGo() {
		return true
	}
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

// works reports whether programs that have the device open can use it.
func (d *Device) works() bool { return !d.removed || !d.verbs.LetsGo() }

// StallReceives makes the device find no receive for any message, as if none were posted,
// until resume is called. Over RoCE the sender's queue pair retries as often as its RNR
// retry count allows. Over iWARP the connection ends.
func (d *Device) StallReceives() (resume func()) {
	d.setStalled(true)
	return func() { d.setStalled(false) }
}

func (d *Device) setStalled(stalled bool) {
	d.fabric.mu.Lock()
	defer d.fabric.mu.Unlock()
	d.stalled = stalled
}

// Pause holds back everything that queue pairs send until resume is called. The test must call
// resume. Messages of the connection manager still arrive. stuck is closed when something has been
// sent. A queue pair that fails meanwhile loses its sends.
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

// isPaused reports whether the fabric is paused. It is called for a packet that would arrive now.
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
