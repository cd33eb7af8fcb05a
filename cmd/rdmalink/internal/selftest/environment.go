package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// environment holds the device and the properties of it that all tests need.
type environment struct {
	ctx  context.Context
	dev  *uverbs.Device
	attr *verbs.DeviceAttr
	port int
	link *verbs.PortAttr
	gid  *verbs.GIDEntry                // nil where addresses need none, and on iWARP
	addr netip.Addr                     // of its network device; zero if there is none
	open func() (*uverbs.Device, error) // opens the device again

	os, firmware, board string
	posts               int     // how often a test of stores posts
	frames              *uint16 // numbers the ports of frames

	made []func() error // of the current test: functions that close its objects, in order of creation
}

func newEnvironment(ctx context.Context, m *host.Machine, dev *uverbs.Device) (b *environment, err error) {
	name := dev.Info().Name
	b = &environment{ctx: ctx, dev: dev, frames: new(uint16), open: func() (*uverbs.Device, error) { return m.Open(name) }}
	if b.attr, err = dev.Attr(); err != nil {
		return nil, err
	}
	if err := b.findPort(); err != nil {
		return nil, err
	}
	if b.link.GRHRequired || b.link.LinkLayer == verbs.LinkEthernet && !b.iwarp() || b.hasSRD() {
		if b.gid, err = dev.ChooseGID(b.port, nil); err != nil {
			return nil, err
		}
	}
	b.findAddress(m)
	if b.iwarp() && !b.addr.IsValid() {
		return nil, fmt.Errorf("there is no IP address that leads to %s, and iWARP connects by address only (ip addr add ADDRESS/LENGTH dev NETDEV)", name)
	}
	b.os = m.Proc.Text("sys", "kernel", "osrelease")
	if d, err := m.RDMA.DeviceByName(name); err == nil {
		b.firmware = d.FWVersion
	}
	if m.Sys.FS != nil {
		b.board = m.Sys.Text("class", "infiniband", name, "board_id")
	}
	return b, nil
}

func (b *environment) iwarp() bool { return b.dev.Info().NodeType == verbs.NodeRNIC }

// hasSRD reports whether the device is EFA.
func (b *environment) hasSRD() bool { return b.dev.Supports(verbs.QPTypeSRD, verbs.OpSend) }

// findPort finds the first port that is active.
func (b *environment) findPort() (err error) {
	for b.port = 1; b.port <= b.attr.PhysPortCnt; b.port++ {
		if b.link, err = b.dev.QueryPort(b.port); err != nil {
			return err
		}
		if b.link.State == verbs.PortActive {
			return nil
		}
	}
	return fmt.Errorf("no port of %s is active (rdmalink doctor %[1]s says why)", b.dev.Info().Name)
}

// findAddress finds an address by which rdma_cm finds the port: one of its network device.
// If the network device is unknown, it tries all addresses.
func (b *environment) findAddress(m *host.Machine) {
	index, known := b.netdev(m)
	nets, _ := m.Net.List()
	for _, n := range nets {
		for _, a := range n.Addrs {
			switch {
			case a.IsLinkLocalUnicast(), known && (n.Index != index || a.IsLoopback()):
			case known || b.leadsHere(a):
				b.addr = a
				return
			}
		}
	}
}

// netdev returns the network device of the port.
func (b *environment) netdev(m *host.Machine) (index uint32, known bool) {
	d, err := m.RDMA.DeviceByName(b.dev.Info().Name)
	if err != nil {
		return 0, false
	}
	ports, _ := m.RDMA.Ports(d.Index)
	for _, p := range ports {
		if p.Index == b.port && p.NetdevIndex > 0 {
			return p.NetdevIndex, true
		}
	}
	return 0, false
}

func (b *environment) leadsHere(a netip.Addr) bool {
	device, err := b.reach(a)
	return err == nil && device == b.dev.Info().Name
}

// facts returns the properties of the device that a reader of the report needs.
func (b *environment) facts() []finding {
	info, a := b.dev.Info(), b.attr
	version := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = build.Main.Version
	}
	way := fmt.Sprintf("port %d, %v, MTU %d", b.port, b.link.LinkLayer, b.link.ActiveMTU.Bytes())
	if b.gid != nil {
		way += fmt.Sprintf(", GID %d: %v, %v", b.gid.Index, b.gid.GID, b.gid.Type)
	}
	if b.addr.IsValid() {
		way += fmt.Sprintf(", address %v", b.addr)
	}
	firmware := fmt.Sprintf("%s (%#x)", cmp.Or(b.firmware, "unknown"), a.FWVer)
	if b.board != "" {
		firmware += ", board " + b.board
	}
	var facts []finding
	for _, f := range [][2]string{
		{"rdmalink", fmt.Sprintf("%s, %s, %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)},
		{"kernel", b.os},
		{"device", fmt.Sprintf("%s, driver %v, ABI %d, vendor %#06x, part %d, hardware %d", info.Name, info.Driver, info.ABI, a.VendorID, a.VendorPartID, a.HWVer)},
		{"firmware", firmware},
		{"way", way},
	} {
		facts = append(facts, finding{name: f[0], result: fact, detail: f[1]})
	}
	return facts
}

// keep arranges for an object to be closed at the end of the test.
func (b *environment) keep(closes func() error) { b.made = append(b.made, closes) }

// endpoint creates an endpoint that is closed, with all that was created on it, at the end of the test.
func (b *environment) endpoint(dev *uverbs.Device, opts *uverbs.EndpointOptions) (*uverbs.Endpoint, error) {
	e, err := dev.CreateEndpoint(opts)
	if err == nil {
		b.keep(e.Close)
	}
	return e, err
}

func (b *environment) close() (err error) {
	for _, closes := range slices.Backward(b.made) {
		if failed := closes(); !errors.Is(failed, verbs.ErrClosed) {
			err = errors.Join(err, failed)
		}
	}
	b.made = nil
	return err
}

// byAddress connects by rdma_cm.
func byAddress(b *environment) (string, error) {
	if !b.addr.IsValid() {
		return "", none("the port's network device has no IP address here")
	}
	device, err := b.reach(b.addr)
	if err == nil && device != b.dev.Info().Name {
		err = fmt.Errorf("%v leads to %s", b.addr, device)
	}
	return fmt.Sprintf("connected to %v and closed", b.addr), err
}

// reach connects an address to itself. It says which device that leads to. Neither end closes
// before both are connected.
func (b *environment) reach(addr netip.Addr) (device string, err error) {
	l, err := rdmacm.Listen(context.Background(), netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	type answer struct {
		*rdmacm.Conn
		error
	}
	came := make(chan answer, 1)
	go func() {
		c, err := l.Accept(ctx)
		came <- answer{c, err}
	}()
	d := rdmacm.Dialer{LocalAddr: netip.AddrPortFrom(addr, 0)}
	c, err := d.Dial(ctx, l.Addr().String())
	if err != nil {
		cancel()
	} else {
		device = c.Device().Info().Name
	}
	a := <-came
	if a.Conn != nil {
		err = errors.Join(err, a.Close())
	} else if err == nil {
		err = a.error
	}
	if c != nil {
		err = errors.Join(err, c.Close())
	}
	return device, errors.Join(err, l.Close())
}
