package rdmatest

import (
	"cmp"
	"context"
	"net/netip"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/kernel"
)

// Host is a machine of a fabric.
type Host struct {
	fabric  *Fabric
	devices []*Device

	mu     sync.Mutex // guards what follows
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

// Context returns a copy of ctx that belongs to the host: what dials with it, by packages rdmacm,
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
		if d.kind == to.kind && !d.isRemoved() {
			return d.addrLike(dst)
		}
	}
	return h.devices[0].addrs[0]
}

// Kill has the host's programs die, as by SIGKILL, with all that they have on its devices. The
// host stays: its kernel ends their connections, frees their objects and their memory, and
// refuses who dials them, and other programs may open the devices. The goroutines of the test
// that stand for the dead programs find their devices gone, as after Remove. What they don't
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
