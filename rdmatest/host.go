package rdmatest

import (
	"cmp"
	"sync"
	"syscall"
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
		d.Kind = cmp.Or(d.Kind, kind, RXE)
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

func (h *Host) pin(bytes int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytes > 0 && h.limits && h.pinned+bytes > h.limit {
		return syscall.ENOMEM
	}
	h.pinned += bytes
	return nil
}
