package rdmatest

import (
	"net/netip"
	"slices"
	"time"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Device is an RDMA device with one port, on a network device of its own. Each opening
// of it has objects of its own, as with a kernel.
type Device struct {
	fabric *Fabric
	host   *Host
	kind   Kind
	name   string
	index  uint32
	addrs  []netip.Addr
	gids   [][16]byte
	lid    uint16 // on InfiniBand
	rules  rules
	verbs  *fakeverbs.Device

	faults  faults
	stalled bool      // guarded by the fabric's lock, as what follows
	busy    time.Time // when the port has sent what it was given
	removed bool      // it is off the list
	gone    bool      // and not found by its index either
}

func (f *Fabric) addDevice(h *Host, o *DeviceOptions) *Device {
	d := &Device{fabric: f, host: h, kind: o.Kind, name: o.Name, addrs: slices.Clone(o.Addrs), index: nextIndex()}
	if d.name == "" {
		d.name = freeName(f, d.kind)
	}
	if d.addrs == nil {
		d.addrs = []netip.Addr{freeAddr(f)}
	}
	info := kinds[d.kind]
	d.verbs = fakeverbs.NewDevice(info.driver)
	d.verbs.NodeGUID = reversed(d.guid())
	d.gids = [][16]byte{{0: 2, 4: byte(d.index >> 8), 5: byte(d.index)}} // the MAC
	d.rules = info.rules
	if !d.kind.isIWARP() {
		d.gids = [][16]byte{linkLocal(d.index)}
		for _, a := range d.addrs {
			d.gids = append(d.gids, a.As16())
		}
	}
	if o.InfiniBand && info.infiniBand {
		d.lid = uint16(d.index%mostLIDs) + 1
		d.verbs.SetInfiniBand(d.lid)
	}
	d.verbs.SetGIDs(d.gids...)
	return d
}

// mostLIDs is how many LIDs there are that are no group's.
const mostLIDs = 0xbfff

func linkLocal(index uint32) [16]byte {
	return [16]byte{0: 0xfe, 1: 0x80, 8: 2, 11: 0xff, 12: 0xfe, 14: byte(index >> 8), 15: byte(index)}
}

// Name is the name that package uverbs opens the device by.
func (d *Device) Name() string { return d.name }

// Kind is what the device is like.
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
