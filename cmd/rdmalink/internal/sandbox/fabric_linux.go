package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mad"
	"github.com/goverbs/goverbs/madtest"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// fabric is the subnet of --fabric and its nodes, as hosts that programs run on.
type fabric struct {
	subnet *madtest.Subnet
	hosts  []*madtest.Node
	dir    string // of the hosts' files

	mu       sync.Mutex
	machines map[*madtest.Node]*machine // by the first use of each
}

func newFabricHosts(s *madtest.Subnet, dir string) *fabric {
	return &fabric{subnet: s, hosts: hostNodes(s), dir: dir, machines: make(map[*madtest.Node]*machine)}
}

// machine returns the host that a value of the host variable names: a node by its name, or an adapter
// by its number. All others name the first adapter.
func (f *fabric) machine(value string) (*machine, error) {
	n := f.subnet.Node(value)
	if n == nil {
		n = f.hosts[hostNumber(value, len(f.hosts))-1]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.machines[n]; m != nil {
		return m, nil
	}
	m := &machine{netlink: noDevices{}, tree: filepath.Join(f.dir, fmt.Sprint("node", len(f.machines))), nodes: make(map[string]node)}
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
		p := &fabricPort{umad: umadNode(i), issm: issmNode(i), open: func() (mad.Port, error) { return f.subnet.Open(n.Name(), num) }}
		var err error
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

	mu    sync.Mutex
	texts map[string]string // what the files in sysfs have
}

// fabricPort is a port of the device.
type fabricPort struct {
	umad, issm node
	open       func() (mad.Port, error)
	state      mad.Port // for the files in sysfs

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
		plantFabricPort(files, i, &a)
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
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path+"~", []byte(text), 0o644)
		}
		if err = errors.Join(err, os.Rename(path+"~", path)); err != nil {
			return err
		}
	}
	return nil
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
	device := "/sys/class/infiniband/" + a.Device + "/"
	types := map[mad.NodeType]string{mad.NodeCA: "1: CA", mad.NodeSwitch: "2: switch", mad.NodeRouter: "3: router"}
	for name, text := range map[string]string{
		"node_type": types[a.NodeType], "node_guid": colons(a.NodeGUID), "sys_image_guid": colons(a.SystemGUID),
		"hca_type": a.DeviceType, "fw_ver": a.Firmware, "hw_rev": a.Hardware, "node_desc": a.Device,
	} {
		files[device+name] = text
	}
	port := fmt.Sprintf("%sports/%d/", device, a.Port)
	for name, text := range map[string]string{
		"state":      fmt.Sprintf("%d: %s", a.State, strings.ToUpper(a.State.String())),
		"phys_state": fmt.Sprintf("%d: %s", a.PhysState, a.PhysState), "rate": a.RateText, "link_layer": a.LinkLayer,
		"lid": fmt.Sprintf("0x%x", a.LID), "lid_mask_count": strconv.Itoa(int(a.LMC)), "sm_lid": fmt.Sprintf("0x%x", a.SMLID),
		"sm_sl": strconv.Itoa(int(a.SMSL)), "cap_mask": fmt.Sprintf("0x%08x", a.CapMask),
	} {
		files[port+name] = text
	}
	for k, g := range a.GIDs {
		var words [8]string
		for w := range words {
			words[w] = fmt.Sprintf("%02x%02x", g[2*w], g[2*w+1])
		}
		files[port+"gids/"+strconv.Itoa(k)] = strings.Join(words[:], ":")
	}
	for k, key := range a.PKeys {
		files[port+"pkeys/"+strconv.Itoa(k)] = fmt.Sprintf("0x%04x", key)
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
			return nil, fmt.Errorf("expected fat-tree:RADIXxLEVELS, such as fat-tree:4x2")
		}
		return madtest.FatTree(a, b)
	case "dragonfly":
		if _, err := fmt.Sscanf(numbers+" ", "%dx%dx%d ", &a, &b, &c); err != nil {
			return nil, fmt.Errorf("expected dragonfly:GROUPSxSWITCHESxHOSTS, such as dragonfly:5x4x2")
		}
		return madtest.Dragonfly(a, b, c)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
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
