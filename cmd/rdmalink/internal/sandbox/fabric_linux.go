package sandbox

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/madtest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// fabric is the subnet of --fabric and its nodes, as hosts that programs run on.
type fabric struct {
	subnet *madtest.Subnet
	hosts  []*madtest.Node
	dir    string // of the hosts' files

	// The devices with verbs of adapters, by the number of the adapter among all nodes that have one.
	kernel  kernel.Kernel
	network *rdmatest.Fabric
	numbers map[*madtest.Node]int

	mu       sync.Mutex
	machines map[*madtest.Node]*machine // by the first use of each
}

func newFabricHosts(s *madtest.Subnet, dir string, seed int) *fabric {
	f := &fabric{subnet: s, hosts: hostNodes(s), dir: dir, numbers: make(map[*madtest.Node]int), machines: make(map[*madtest.Node]*machine)}
	o := rdmatest.Options{Seed: uint64(seed)}
	for _, n := range f.hosts {
		if n.Info().Type != mad.NodeCA {
			continue
		}
		i := len(o.Hosts)
		f.numbers[n] = i
		o.Hosts = append(o.Hosts, rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{{Kind: rdmatest.MLX5, Name: fabricDevice, Subnet: subnetPort{n.Port(1)},
			Addrs: []netip.Addr{netip.AddrFrom4([4]byte{198, 18 + byte(i>>16), byte((i + 1) >> 8), byte(i + 1)})}}}})
	}
	if o.Hosts != nil {
		f.kernel, f.network = newNetwork(&o)
	}
	return f
}

// fabricDevice is the name of the device of an adapter.
const fabricDevice = "mlx5_0"

// subnetPort is the first port of an adapter, which is the port of its device with verbs.
type subnetPort struct{ *madtest.Port }

// State implements rdmatest.SubnetPort.
func (p subnetPort) State() rdmatest.SubnetState {
	i := p.Info()
	var gid verbs.GID
	binary.BigEndian.PutUint64(gid[:], i.GIDPrefix)
	binary.BigEndian.PutUint64(gid[8:], uint64(p.GUID()))
	speed := i.LinkSpeedActive
	if i.LinkSpeedExtActive != 0 {
		speed = i.LinkSpeedExtActive << 4 // FDR is 16
	}
	return rdmatest.SubnetState{NodeGUID: p.Node().Info().NodeGUID, State: i.LinkState, Phys: i.PhysLinkState, LID: i.LID, LMC: i.LMC,
		SMLID: i.SMLID, SMSL: i.SMSL, CapMask: i.CapMask, Width: uint8(i.LinkWidthActive), Speed: speed, GIDs: []verbs.GID{gid}}
}

// Route implements rdmatest.SubnetPort.
func (p subnetPort) Route(lid uint16) rdmatest.SubnetPort {
	if to := p.Port.Route(lid); to != nil {
		return subnetPort{to}
	}
	return nil
}

// newMachine returns the host of a node, with a device if it is an adapter.
func (f *fabric) newMachine(n *madtest.Node) (*machine, error) {
	dir := filepath.Join(f.dir, fmt.Sprint("node", len(f.machines)))
	if number, ok := f.numbers[n]; ok {
		return newMachine(f.kernel, number, f.network.Host(number), dir, nil)
	}
	return &machine{netlink: noDevices{}, tree: dir, nodes: make(map[string]node)}, nil
}

// all returns the machines that programs have run on.
func (f *fabric) all() []*machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.machines))
}

// machine returns the host that a value of the host variable names: a node by its name, or an adapter
// by its number. Without a value it is the first adapter.
func (f *fabric) machine(value string) (*machine, error) {
	n := f.subnet.Node(value)
	if n == nil {
		number, err := hostNumber(value, len(f.hosts))
		if err != nil {
			return nil, err
		}
		n = f.hosts[number-1]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.machines[n]; m != nil {
		return m, nil
	}
	m, err := f.newMachine(n)
	if err != nil {
		return nil, err
	}
	m.fabric = &fabricHost{m: m, ports: make(map[node]*fabricPort), texts: make(map[string]string)}
	first := 1
	if n.Port(0) != nil {
		first = 0
	}
	for num := first; n.Port(num) != nil && (num > 0 || len(m.fabric.ports) == 0); num++ {
		if num > 0 && first == 0 {
			break // of a switch only port 0 has programs
		}
		i := uint32(num - first)
		p := &fabricPort{umad: umadNode(i), issm: issmNode(i), wire: n.Port(num), open: func() (mad.Port, error) { return f.subnet.Open(n.Name(), num) }}
		if p.state, err = p.open(); err != nil {
			return nil, err
		}
		m.fabric.ports[p.umad], m.fabric.ports[p.issm] = p, p
		m.fabric.order = append(m.fabric.order, p)
		m.nodes[fmt.Sprintf("/dev/infiniband/umad%d", i)] = p.umad
		m.nodes[fmt.Sprintf("/dev/infiniband/issm%d", i)] = p.issm
	}
	if err := m.fabric.refresh(); err != nil {
		return nil, err
	}
	f.machines[n] = m
	return m, nil
}

// noDevices is the netlink of a host whose only device has management datagrams and no verbs.
type noDevices struct{}

// Execute implements netlinkrdma.Kernel.
func (noDevices) Execute(req netlinkrdma.Request) ([][]byte, error) {
	if req.Dump {
		return nil, nil
	}
	return nil, syscall.EINVAL
}

// fabricHost is the device of a host of a fabric.
type fabricHost struct {
	m     *machine
	ports map[node]*fabricPort // by both of their nodes
	order []*fabricPort

	mu      sync.Mutex
	texts   map[string]string // what the files in sysfs have
	watched bool              // watch is running
}

// watch raises the events of the port of the device, as mlx5 does, for as long as programs have the device open.
func (h *fabricHost) watch(d *verbsDevice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched {
		return
	}
	h.watched = true
	port, gids := d.model.Port(), d.model.GIDs()
	go func() {
		for h.watches(d) {
			time.Sleep(portInterval)
			before, gidsBefore := port, gids
			port, gids = d.model.Port(), d.model.GIDs()
			const active = uint8(verbs.PortActive)
			for event, happened := range map[uint32]bool{
				abi.IB_EVENT_PORT_ERR: before.State == active && port.State != active, abi.IB_EVENT_PORT_ACTIVE: before.State != active && port.State == active,
				abi.IB_EVENT_LID_CHANGE: before.Lid != port.Lid, abi.IB_EVENT_GID_CHANGE: !slices.Equal(gidsBefore, gids),
			} {
				if happened {
					d.model.Raise(event)
				}
			}
		}
	}()
}

// portInterval is how often a port is looked at for events.
const portInterval = 10 * time.Millisecond

// watches reports whether a program has the device open. If not, it ends watch.
func (h *fabricHost) watches(d *verbsDevice) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watched = slices.ContainsFunc(d.model.Openings(), func(k *fakeverbs.Kernel) bool { return !k.Closed() })
	return h.watched
}

// setLink plugs the cable of the device's port in, or out.
func (h *fabricHost) setLink(up bool) {
	if p := h.order[0].wire; up {
		p.Plug()
	} else {
		p.Unplug()
	}
}

// fabricPort is a port of the device.
type fabricPort struct {
	umad, issm node
	open       func() (mad.Port, error)
	state      mad.Port // for the files in sysfs
	wire       *madtest.Port

	mu   sync.Mutex
	held chan struct{} // closed when the process with issmN open closes it; nil: none has
}

// takeISSM takes the node issmN. While it is taken it returns a channel that is closed when it is free.
func (p *fabricPort) takeISSM() (freed <-chan struct{}, taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		return p.held, true
	}
	p.held = make(chan struct{})
	return nil, false
}

func (p *fabricPort) freeISSM() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.held)
	p.held = nil
}

// umadNode and issmNode return the nodes of the n-th port.
func umadNode(n uint32) node { return node{unix.S_IFCHR | 0o600, 231, n} }
func issmNode(n uint32) node { return node{unix.S_IFCHR | 0o600, 231, 64 + n} }

// refresh writes what has changed into the files of sysfs. Processes may read them meanwhile, so each
// is replaced.
func (h *fabricHost) refresh() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	files := map[string]string{"/sys/class/infiniband_mad/abi_version": "5"}
	for path := range h.m.nodes {
		files[path] = ""
	}
	for i, p := range h.order {
		a, err := p.state.Attr()
		if err != nil {
			return err
		}
		if h.m.devices != nil {
			a.Device = fabricDevice
		} else {
			plantNode(files, &a)
		}
		plantFabricPort(files, i, &a)
		p.wire.Count(func(c *mad.PortCountersExtended) { plantCounters(files, &a, c) })
	}
	for path, text := range files {
		if old, ok := h.texts[path]; ok && old == text {
			continue
		}
		h.texts[path] = text
		if text != "" {
			text += "\n"
		}
		path = h.m.behind(path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := replaceFile(path, text); err != nil {
			return err
		}
	}
	return nil
}

// plantCounters adds the counters of a port, by the kernel's names.
func plantCounters(files map[string]string, a *mad.PortAttr, c *mad.PortCountersExtended) {
	for name, n := range map[string]uint64{
		"symbol_error": c.SymbolErrors, "link_error_recovery": c.LinkErrorRecoveries, "link_downed": c.LinkDowned,
		"port_rcv_errors": c.RcvErrors, "port_rcv_remote_physical_errors": c.RcvRemotePhysicalErrors, "port_rcv_switch_relay_errors": c.RcvSwitchRelayErrors,
		"port_xmit_discards": c.XmitDiscards, "port_xmit_constraint_errors": c.XmitConstraintErrors, "port_rcv_constraint_errors": c.RcvConstraintErrors,
		"local_link_integrity_errors": c.LocalLinkIntegrityErrors, "excessive_buffer_overrun_errors": c.ExcessiveBufferOverrunErrors,
		"VL15_dropped": c.VL15Dropped, "port_xmit_wait": c.XmitWait,
		"port_xmit_data": c.XmitData, "port_rcv_data": c.RcvData, "port_xmit_packets": c.XmitPkts, "port_rcv_packets": c.RcvPkts,
		"unicast_xmit_packets": c.UnicastXmitPkts, "unicast_rcv_packets": c.UnicastRcvPkts,
		"multicast_xmit_packets": c.MulticastXmitPkts, "multicast_rcv_packets": c.MulticastRcvPkts,
	} {
		files[fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/counters/%s", a.Device, a.Port, name)] = strconv.FormatUint(n, 10)
	}
}

// physStates are the kernel's names in sysfs.
var physStates = map[verbs.PhysState]string{verbs.PhysSleep: "Sleep", verbs.PhysPolling: "Polling", verbs.PhysDisabled: "Disabled",
	verbs.PhysTraining: "PortConfigurationTraining", verbs.PhysLinkUp: "LinkUp", verbs.PhysLinkRecover: "LinkErrorRecovery", verbs.PhysTest: "Phy Test"}

// replaceFile changes a file while programs may read it.
func replaceFile(path, text string) error {
	if err := os.WriteFile(path+"~", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+"~", path)
}

// plantFabricPort adds the files of a device and its i-th port.
func plantFabricPort(files map[string]string, i int, a *mad.PortAttr) {
	for _, kind := range []string{"umad", "issm"} {
		dir := fmt.Sprintf("/sys/class/infiniband_mad/%s%d/", kind, i)
		files[dir+"ibdev"], files[dir+"port"] = a.Device, strconv.Itoa(int(a.Port))
		is := umadNode(uint32(i))
		if kind == "issm" {
			is = issmNode(uint32(i))
		}
		files[dir+"dev"] = fmt.Sprintf("%d:%d", is.major, is.minor)
	}
	port := fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/", a.Device, a.Port)
	for name, text := range map[string]string{
		"state":      fmt.Sprintf("%d: %s", a.State, strings.ToUpper(a.State.String())),
		"phys_state": fmt.Sprintf("%d: %s", a.PhysState, cmp.Or(physStates[a.PhysState], "<unknown>")), "rate": a.RateText, "link_layer": a.LinkLayer,
		"lid": fmt.Sprintf("0x%x", a.LID), "lid_mask_count": strconv.Itoa(int(a.LMC)), "sm_lid": fmt.Sprintf("0x%x", a.SMLID),
		"sm_sl": strconv.Itoa(int(a.SMSL)), "cap_mask": fmt.Sprintf("0x%08x", a.CapMask),
	} {
		files[port+name] = text
	}
	for k, g := range a.GIDs {
		files[port+"gids/"+strconv.Itoa(k)] = gidText(g)
		files[port+"gid_attrs/types/"+strconv.Itoa(k)] = "IB/RoCE v1"
	}
	for k, key := range a.PKeys {
		files[port+"pkeys/"+strconv.Itoa(k)] = fmt.Sprintf("0x%04x", key)
	}
}

// plantNode adds the files of a device without verbs.
func plantNode(files map[string]string, a *mad.PortAttr) {
	types := map[mad.NodeType]string{mad.NodeCA: "1: CA", mad.NodeSwitch: "2: switch", mad.NodeRouter: "3: router"}
	for name, text := range map[string]string{
		"node_type": types[a.NodeType], "node_guid": colons(a.NodeGUID), "sys_image_guid": colons(a.SystemGUID),
		"hca_type": a.DeviceType, "fw_ver": a.Firmware, "hw_rev": a.Hardware, "node_desc": a.Device,
	} {
		files["/sys/class/infiniband/"+a.Device+"/"+name] = text
	}
}

// newSubnet builds the subnet of --fabric: a fat tree by its radix and levels, a dragonfly by its
// groups, switches a group and hosts a switch, or the topology of a file. Its own subnet manager, if
// there is to be one, runs on the first node with a link.
func newSubnet(name string, sm bool) (*madtest.Subnet, error) {
	t, err := topology(name)
	if err != nil {
		return nil, fmt.Errorf("--fabric %s: %w", name, err)
	}
	s, err := madtest.NewSubnet(t)
	if err != nil {
		return nil, fmt.Errorf("--fabric %s: %w", name, err)
	}
	if !sm {
		return s, nil
	}
	for _, n := range hostNodes(s) {
		if err = s.StartSM(n.Name()); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("--fabric %s: no adapter for a subnet manager: %w", name, err)
}

func topology(name string) (*madtest.Topology, error) {
	var a, b, c int
	kind, numbers, _ := strings.Cut(name, ":")
	switch kind {
	case "fat-tree":
		if _, err := fmt.Sscanf(numbers+" ", "%dx%d ", &a, &b); err != nil {
			return nil, cli.UsageError{Text: "expected fat-tree:RADIXxLEVELS, such as fat-tree:4x2"}
		}
		return madtest.FatTree(a, b)
	case "dragonfly":
		if _, err := fmt.Sscanf(numbers+" ", "%dx%dx%d ", &a, &b, &c); err != nil {
			return nil, cli.UsageError{Text: "expected dragonfly:GROUPSxSWITCHESxHOSTS, such as dragonfly:5x4x2"}
		}
		return madtest.Dragonfly(a, b, c)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("expected a file, fat-tree:RADIXxLEVELS or dragonfly:GROUPSxSWITCHESxHOSTS: %w", err)
	}
	defer f.Close()
	return madtest.ParseTopology(f)
}

// hostNodes returns the nodes on which programs run: those that are no switches, or all, if all are.
func hostNodes(s *madtest.Subnet) []*madtest.Node {
	var hosts []*madtest.Node
	for _, n := range s.Nodes() {
		if n.Info().Type != mad.NodeSwitch {
			hosts = append(hosts, n)
		}
	}
	if len(hosts) == 0 {
		return s.Nodes()
	}
	return hosts
}
