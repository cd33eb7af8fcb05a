package doctor

import (
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/sandbox"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// facts holds what the checks use, read once.
type facts struct {
	*host.Machine
	coreErr  error // why devices can't be listed
	devices  []*deviceFacts
	exposed  bool // system is known
	system   netlinkrdma.System
	netdevs  map[uint32]addlink.Netdev // of this network namespace, by number
	doubtful error                     // why they are not known
}

// deviceFacts holds what the checks use about a device.
type deviceFacts struct {
	netlinkrdma.Device
	ports   []netlinkrdma.Port
	info    uverbs.DeviceInfo // name, driver and ABI
	nodeErr error             // the error for a missing char device
	dev     *uverbs.Device
	openErr error // why it is not open
	gids    []verbs.GIDEntry
	gidErr  error  // the error for missing GIDs
	sandbox string // the address of a device of rdmalink sandbox, otherwise empty
}

// examine reads all devices, or the one of that name.
func examine(m *host.Machine, name string) (*facts, error) {
	p := &facts{Machine: m, netdevs: make(map[uint32]addlink.Netdev)}
	p.coreErr = m.ForDevices("", func(d netlinkrdma.Device) error {
		if name != "" && d.Name != name {
			return nil
		}
		ports, err := m.RDMA.Ports(d.Index)
		if err == nil {
			p.devices = append(p.devices, examineDevice(m, d, ports))
		}
		return err
	})
	if p.coreErr == nil && name != "" && len(p.devices) == 0 {
		_, err := m.RDMA.DeviceByName(name)
		return nil, err
	}
	if system, err := m.RDMA.System(); err == nil {
		p.system, p.exposed = system, true
	}
	all, err := m.Net.List()
	for _, d := range all {
		p.netdevs[d.Index] = d
	}
	p.doubtful = err
	return p, nil
}

func examineDevice(m *host.Machine, d netlinkrdma.Device, ports []netlinkrdma.Port) *deviceFacts {
	l := &deviceFacts{Device: d, ports: ports, info: uverbs.DeviceInfo{Name: d.Name}, sandbox: m.Sys.Text("class/infiniband", d.Name, sandbox.AddressFile)}
	c, err := m.RDMA.UverbsCharDev(d.Index)
	if err != nil {
		l.nodeErr = err
		return l
	}
	l.info.Driver, l.info.ABI = verbs.DriverID(c.DriverID), uint32(c.ABI)
	if l.dev, l.openErr = m.Open(d.Name); l.openErr != nil {
		l.dev = nil
		return l
	}
	l.gids, l.gidErr = l.dev.GIDTable()
	return l
}

// onNetdev reports whether the device sends through network devices.
func (l *deviceFacts) onNetdev() bool { return l.Protocol == "roce" || l.Protocol == "iw" }

// dismiss closes the devices that examine opened.
func (p *facts) dismiss() {
	for _, l := range p.devices {
		if l.dev != nil {
			l.dev.Close() // checks close their own objects
		}
	}
}

// eachPort calls f for the ports of all devices.
func (p *facts) eachPort(f func(l *deviceFacts, port netlinkrdma.Port) []finding) (all []finding) {
	for _, l := range p.devices {
		for _, port := range l.ports {
			all = append(all, f(l, port)...)
		}
	}
	return all
}
