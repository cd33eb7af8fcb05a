package rdmatest

import (
	"fmt"
	"io/fs"
	"math/bits"
	"net/netip"
	"strings"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// asKernel is a fabric as packages uverbs and rdmacm see it.
type asKernel struct{ *Fabric }

func (k asKernel) Netlink() netlinkrdma.Kernel { return k }

func (k asKernel) Owns(a netip.Addr) bool { return k.owner(a.Unmap()) != nil }

func (k asKernel) OpenCM() (kernel.CM, error) { return k.manager.open(), nil }

const nodes = "/dev/infiniband/rdmatest"

func (d *Device) node() string { return fmt.Sprintf("%s%d", nodes, d.index) }

func (k asKernel) OpenDevice(path string, _ uint64) (ioctl.File, error) {
	for _, d := range k.devices {
		if d.node() == path && !d.isRemoved() {
			return d.open()
		}
	}
	return nil, fs.ErrNotExist
}

func (d *Device) guid() verbs.GUID {
	return verbs.GUID(0x0200_00ff_fe00_0000 | uint64(d.index&0xffffff))
}

func reversed(g verbs.GUID) uint64 { return bits.ReverseBytes64(uint64(g)) }

// Execute answers a request of netlink. As in a kernel, a device that is being removed is
// off the list and still found by its index.
func (k asKernel) Execute(req netlinkrdma.Request) ([][]byte, error) {
	n := nltest.Kernel{CharDevs: make(map[uint32]netlinkrdma.CharDev)}
	for _, d := range k.devices {
		if d.isRemoved() && (req.Dump || d.isGone()) {
			continue
		}
		info := kinds[d.kind]
		n.Devices = append(n.Devices, netlinkrdma.Device{Index: d.index, Name: d.name, NodeGUID: d.guid(), SysImageGUID: d.guid(), Ports: 1,
			NodeType: info.node, Protocol: info.protocol})
		n.Ports = append(n.Ports, d.port())
		n.CharDevs[d.index] = netlinkrdma.CharDev{Name: strings.TrimPrefix(d.node(), "/dev/infiniband/"), ABI: info.abi, DriverID: info.driver}
	}
	return n.Execute(req)
}

func (d *Device) port() netlinkrdma.Port {
	p := netlinkrdma.Port{DeviceIndex: d.index, DeviceName: d.name, Index: 1, State: verbs.PortActive, PhysState: verbs.PhysLinkUp}
	if !d.verbs.Up() {
		p.State, p.PhysState = verbs.PortDown, verbs.PhysDisabled
	}
	return p
}
