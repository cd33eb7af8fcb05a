package madtest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// Subnet is an InfiniBand subnet in this process. Its methods, and those of its nodes and ports, may
// be called concurrently.
type Subnet struct {
	mu     sync.Mutex // guards all nodes and ports as well
	nodes  []*Node
	byName map[string]*Node
	random *rand.Rand
	sm     *subnetManager // nil unless StartSM has started one
	prefix uint64

	nextHost uint64 // number of calls of Open
}

// Node is a switch, an adapter or a router of a subnet.
type Node struct {
	subnet *Subnet
	name   string
	desc   string
	info   mad.NodeInfo
	ports  []*Port // by number; port 0 is nil unless the node is a switch
	sw     *switchState
	fault  Fault

	wideErrors bool
	hasXDR     bool // a port supports XDR
}

type switchState struct {
	info mad.SwitchInfo
	lft  []uint8                 // linear forwarding table, up to the last written block
	mft  map[mftBlock][32]uint16 // multicast forwarding table
}

type mftBlock struct {
	block    uint16
	position uint8
}

// Port is a port of a node.
type Port struct {
	node     *Node
	num      uint8
	guid     verbs.GUID
	info     mad.PortInfo
	mlnx     mad.MlnxExtPortInfo
	peer     *Port // at the other end of the cable
	plugged  bool  // the cable is plugged in
	loss     float64
	counters *mad.PortCountersExtended // nil if all are zero
	details  *errorDetails
	control  *Congestion // nil if it has never been used
	pkeys    []uint16
	guids    []verbs.GUID // the GUID table; its first entry is unused
	sl2vl    map[uint16]mad.SL2VLTable
	vlarb    map[uint8]mad.VLArbTable
	smInfo   *mad.SMInfo
	hosts    []endpoint // programs that have opened the port
}

type errorDetails struct {
	rcv  mad.PortRcvErrorDetails
	xmit mad.PortXmitDiscardDetails
}

// endpoint is a program that has opened a port: one in this process, or a client of an IbsimServer.
type endpoint interface {
	// request passes a request, or a MAD that expects no response. It reports whether the endpoint
	// accepts it.
	request(m *mad.Message) bool
	// response passes a response. It reports whether the endpoint has an outstanding request for it.
	response(m *mad.Message) bool
}

// Fault describes the faults of a node. The zero Fault means that the node works correctly.
type Fault struct {
	Silent bool          // the node forwards MADs but answers none
	Delay  time.Duration // delay of each response
	Busy   int           // number of requests that are answered with the status busy; counts down

	// Alter returns the response that the node sends instead of its own, or nil for none. It must not
	// call methods of the subnet, which is locked.
	Alter func(request, response mad.MAD) mad.MAD
}

// Default values of nodes.
const (
	defaultPrefix    = 0xfe80000000000000
	defaultWidths    = 1 | 2
	defaultSpeeds    = 1 | 2 | 4
	defaultExtSpeeds = 1 | 2
	pkeyCap          = 64
	linearCap        = 0xc000
	multicastCap     = 1024
	defaultPKey      = 0xffff
)

// Bits of PortInfo.CapMask.
const (
	capIsSM         = 1 << 1
	capNotice       = 1 << 2
	capTrap         = 1 << 3
	capSLMapping    = 1 << 6
	capSystemGUID   = 1 << 11
	capExtSpeeds    = 1 << 14
	capCapMask2     = 1 << 15
	capVendor       = 1 << 20
	capNoticeCap    = 1 << 22
	capClientReregs = 1 << 25
	capMcastFDBTop  = 1 << 30
)

// cap2ExtSpeeds2 is the bit of PortInfo.CapMask2 for speeds above NDR.
const cap2ExtSpeeds2 = 1 << 11

// failed returns the error of an operation on an object.
func failed(op, object, format string, args ...any) error {
	return &verbs.Error{Op: op, Object: object, Err: fmt.Errorf(format, args...)}
}

// NewSubnet creates the nodes of a topology and plugs in the cables. The links are up, and their ports
// are in the state Initialize until a subnet manager activates them.
func NewSubnet(t *Topology) (*Subnet, error) {
	s := &Subnet{byName: make(map[string]*Node, len(t.Nodes)), random: rand.New(rand.NewPCG(1, 2)), prefix: defaultPrefix}
	if len(t.Nodes) == 0 || len(t.Nodes) > maxNodes {
		return nil, failed("create", "subnet", "%d nodes, not 1 to %d", len(t.Nodes), maxNodes)
	}
	next := map[mad.NodeType]verbs.GUID{mad.NodeCA: 0x100000, mad.NodeSwitch: 0x200000, mad.NodeRouter: 0x300000}
	for i := range t.Nodes {
		spec := &t.Nodes[i]
		if spec.Ports < 1 || spec.Ports > 254 {
			return nil, failed("create", "subnet", "node %q has %d ports, not 1 to 254", spec.Name, spec.Ports)
		}
		if s.byName[spec.Name] != nil || spec.Name == "" {
			return nil, failed("create", "subnet", "duplicate name %q", spec.Name)
		}
		guid := spec.GUID
		if guid == 0 {
			guid = next[spec.Type]
			next[spec.Type] += verbs.GUID(1)
			if spec.Type != mad.NodeSwitch {
				next[spec.Type] += verbs.GUID(spec.Ports)
			}
		}
		n, err := s.newNode(spec, guid)
		if err != nil {
			return nil, err
		}
		s.nodes = append(s.nodes, n)
		s.byName[spec.Name] = n
	}
	for _, c := range t.Cables {
		a, err := s.end(c.A)
		if err != nil {
			return nil, err
		}
		b, err := s.end(c.B)
		if err != nil {
			return nil, err
		}
		if a.peer != nil || b.peer != nil {
			return nil, failed("create", "subnet", "the cable from port %d of %q to port %d of %q has a port that is already connected", c.A.Port, c.A.Node, c.B.Port, c.B.Node)
		}
		a.peer, b.peer = b, a
		a.plugged, b.plugged = true, true
		a.train()
	}
	for _, n := range s.nodes {
		if n.sw != nil {
			n.sw.info.StateChange = false
		}
	}
	return s, nil
}

func (s *Subnet) end(e End) (*Port, error) {
	n := s.byName[e.Node]
	if n == nil || e.Port < 1 || e.Port >= len(n.ports) {
		return nil, failed("create", "subnet", "a cable leads to port %d of %q, which does not exist", e.Port, e.Node)
	}
	return n.ports[e.Port], nil
}

func (s *Subnet) newNode(spec *NodeSpec, guid verbs.GUID) (*Node, error) {
	n := &Node{subnet: s, name: spec.Name, desc: spec.Description, wideErrors: spec.WideErrors}
	if n.desc == "" {
		n.desc = spec.Name
	}
	n.info = mad.NodeInfo{
		BaseVersion: 1, ClassVersion: 1, Type: spec.Type, NumPorts: uint8(spec.Ports),
		SystemGUID: spec.SystemGUID, NodeGUID: guid, PartitionCap: pkeyCap, Revision: 0xa1,
		VendorID: spec.VendorID, DeviceID: spec.DeviceID,
	}
	if n.info.SystemGUID == 0 {
		n.info.SystemGUID = guid
	}
	first := 1
	switch spec.Type {
	case mad.NodeSwitch:
		first = 0
		n.sw = &switchState{mft: map[mftBlock][32]uint16{}, info: mad.SwitchInfo{
			LinearFDBCap: linearCap, MulticastFDBCap: multicastCap, LifeTime: 18, PartitionEnforceCap: pkeyCap,
			FilterRawInbound: true, FilterRawOutbound: true,
		}}
	case mad.NodeCA, mad.NodeRouter:
	default:
		return nil, failed("create", "subnet", "node %q has the invalid type %d", spec.Name, spec.Type)
	}
	for _, link := range spec.Links {
		n.hasXDR = n.hasXDR || link.ExtSpeeds2 != 0
	}
	n.ports = make([]*Port, spec.Ports+1)
	ports := make([]Port, spec.Ports+1)
	for i := first; i <= spec.Ports; i++ {
		p := &ports[i]
		p.node, p.num, p.guid = n, uint8(i), guid
		if n.sw == nil {
			p.guid = guid + verbs.GUID(i)
		}
		if g, ok := spec.PortGUIDs[i]; ok {
			p.guid = g
		}
		p.info = newPortInfo(n, i, spec.Links[i])
		if n.hasXDR && p.info.CapMask != 0 {
			p.info.CapMask2 = cap2ExtSpeeds2
		}
		p.mlnx.LinkSpeedSupported, p.mlnx.LinkSpeedEnabled = spec.Links[i].MlnxSpeeds, spec.Links[i].MlnxSpeeds
		n.ports[i] = p
	}
	return n, nil
}

func newPortInfo(n *Node, num int, link LinkSpec) mad.PortInfo {
	if link.Widths == 0 {
		link.Widths = defaultWidths
	}
	if link.Speeds == 0 {
		link.Speeds = defaultSpeeds
		link.ExtSpeeds = defaultExtSpeeds
	}
	info := mad.PortInfo{
		LinkWidthEnabled: mad.LinkWidth(link.Widths), LinkWidthSupported: mad.LinkWidth(link.Widths), LinkWidthActive: 1,
		LinkSpeedSupported: link.Speeds, LinkSpeedEnabled: link.Speeds, LinkSpeedActive: 1,
		LinkSpeedExtSupported: link.ExtSpeeds, LinkSpeedExtEnabled: link.ExtSpeeds,
		LinkSpeedExtSupported2: link.ExtSpeeds2, LinkSpeedExtEnabled2: link.ExtSpeeds2,
		LinkState: verbs.PortDown, PhysLinkState: verbs.PhysPolling, LinkDownDefaultState: 2,
		NeighborMTU: verbs.MTU4096, MTUCap: verbs.MTU4096, VLCap: 4, OperVLs: 1, VLArbHighCap: 8, VLArbLowCap: 8,
		LocalPhysErrors: 8, OverrunErrors: 8, HOQLife: 16,
	}
	if num == 0 || n.sw == nil {
		info.GIDPrefix = defaultPrefix
		info.CapMask = capNotice | capTrap | capSLMapping | capSystemGUID | capExtSpeeds | capCapMask2 | capVendor | capNoticeCap | capClientReregs
		info.GUIDCap, info.SubnetTimeout, info.RespTime = 8, 18, 16
	}
	if num == 0 {
		// Port 0 has no link, so it is always up.
		info.LinkState, info.PhysLinkState = verbs.PortActive, verbs.PhysLinkUp
		info.LinkWidthActive, info.LinkSpeedActive, info.CapMask = mad.LinkWidth(1), 1, info.CapMask|capMcastFDBTop
	}
	return info
}

// Format implements [fmt.Formatter]. It prints how many nodes the subnet has.
func (s *Subnet) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "subnet of %d nodes", len(s.nodes)) }

// Nodes returns the nodes in the order of the topology.
func (s *Subnet) Nodes() []*Node { return append([]*Node(nil), s.nodes...) }

// Node returns the node with a name, or nil. Names are those of the topology.
func (s *Subnet) Node(name string) *Node { return s.byName[name] }

// Name returns the name of the node in the topology.
func (n *Node) Name() string { return n.name }

// Format implements [fmt.Formatter]. It prints the node's name.
func (n *Node) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "node %s", n.name) }

// Port returns the port with a number, or nil. Port 0 is the switch itself. Other nodes have no port 0.
func (n *Node) Port(num int) *Port {
	if num < 0 || num >= len(n.ports) {
		return nil
	}
	return n.ports[num]
}

// Info returns the NodeInfo of the node. The fields that depend on a port are zero.
func (n *Node) Info() mad.NodeInfo { return n.info }

// SetDescription changes the NodeDescription and sends trap 144 from each port, as a host does when its
// name changes.
func (n *Node) SetDescription(text string) {
	n.subnet.mu.Lock()
	defer n.subnet.unlock()
	n.desc = text
	for _, p := range n.ports {
		if p != nil && (n.sw == nil || p.num == 0) {
			p.trapLocalChange(true)
		}
	}
}

// SetFault replaces the faults of the node.
func (n *Node) SetFault(f Fault) {
	n.subnet.mu.Lock()
	defer n.subnet.mu.Unlock()
	n.fault = f
}

// Node returns the node of the port.
func (p *Port) Node() *Node { return p.node }

// Num returns the number of the port.
func (p *Port) Num() int { return int(p.num) }

// Format implements [fmt.Formatter]. It prints the node's name and the port's number.
func (p *Port) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "port %d of node %s", p.num, p.node.name) }

// GUID returns the port's GUID. All ports of a switch have the GUID of the switch.
func (p *Port) GUID() verbs.GUID { return p.guid }

// Peer returns the port at the other end of the cable, or nil.
func (p *Port) Peer() *Port { return p.peer }

// Info returns the PortInfo of the port.
func (p *Port) Info() mad.PortInfo {
	p.node.subnet.mu.Lock()
	defer p.node.subnet.mu.Unlock()
	return p.info
}

// Change calls f to change the PortInfo of the port. The subnet doesn't check the change, so a test can
// imitate faults and other subnet managers. f must not call methods of the subnet.
func (p *Port) Change(f func(*mad.PortInfo)) {
	p.node.subnet.mu.Lock()
	defer p.node.subnet.mu.Unlock()
	f(&p.info)
}

// Count calls f to change the counters of the port, so a test can imitate errors on the link. f must
// not call methods of the subnet.
func (p *Port) Count(f func(*mad.PortCountersExtended)) {
	p.node.subnet.mu.Lock()
	defer p.node.subnet.mu.Unlock()
	f(p.count())
}

func (p *Port) count() *mad.PortCountersExtended {
	if p.counters == nil {
		p.counters = new(mad.PortCountersExtended)
	}
	return p.counters
}

// Unplug unplugs the cable of the port. Switches at its ends send trap 128.
func (p *Port) Unplug() { p.setPlugged(false) }

// Plug plugs the cable into the port again.
func (p *Port) Plug() { p.setPlugged(true) }

func (p *Port) setPlugged(in bool) {
	p.node.subnet.mu.Lock()
	defer p.node.subnet.unlock()
	if p.peer == nil || p.plugged == in {
		return
	}
	p.plugged, p.peer.plugged = in, in
	p.train()
}

// Connect connects two ports with a new cable. The ports must not have one.
func (s *Subnet) Connect(a, b *Port) error {
	s.mu.Lock()
	defer s.unlock()
	if a.peer != nil || b.peer != nil || a == b || a.num == 0 || b.num == 0 {
		return failed("connect", "two ports", "both must be unconnected")
	}
	a.peer, b.peer, a.plugged, b.plugged = b, a, true, true
	a.train()
	return nil
}

// SetLoss sets the share of MADs that the link of the port loses in each direction, from 0 to 1. The
// choice of the lost MADs is deterministic: the same sequence of MADs loses the same ones.
func (p *Port) SetLoss(share float64) {
	p.node.subnet.mu.Lock()
	defer p.node.subnet.mu.Unlock()
	p.loss = share
	if p.peer != nil {
		p.peer.loss = share
	}
}

// train brings the link of the port up if the cable and the physical states of both ends permit it,
// and down otherwise. It chooses width and speed.
func (p *Port) train() {
	q := p.peer
	if q == nil {
		return
	}
	// A subnet manager sweeps when the link of its port comes up.
	if sm := p.node.subnet.sm; sm != nil && (sm.port == p || sm.port == q) {
		sm.dirty = true
	}
	up := p.plugged && p.info.PhysLinkState != verbs.PhysDisabled && q.info.PhysLinkState != verbs.PhysDisabled
	for _, end := range []*Port{p, q} {
		was := end.info.LinkState
		switch {
		case up:
			end.info.PhysLinkState, end.info.LinkState = verbs.PhysLinkUp, verbs.PortInit
		default:
			end.info.LinkState = verbs.PortDown
			if end.info.PhysLinkState != verbs.PhysDisabled {
				end.info.PhysLinkState = verbs.PhysPolling
			}
			if was != verbs.PortDown {
				end.count().LinkDowned++
			}
		}
		if end.info.LinkState != was {
			end.stateChanged()
		}
	}
	if up {
		p.negotiate(q)
	}
}

// negotiate chooses the best width and speed that both ends have enabled.
func (p *Port) negotiate(q *Port) {
	width := highest(uint8(p.info.LinkWidthEnabled&p.info.LinkWidthSupported&q.info.LinkWidthEnabled&q.info.LinkWidthSupported), 8, 4, 2, 16, 1)
	speed := highest(p.info.LinkSpeedEnabled&p.info.LinkSpeedSupported&q.info.LinkSpeedEnabled&q.info.LinkSpeedSupported, 4, 2, 1)
	var ext, ext2 uint8
	const extOff = 30
	if p.info.LinkSpeedExtEnabled != extOff && q.info.LinkSpeedExtEnabled != extOff {
		ext = highest(p.info.LinkSpeedExtEnabled&p.info.LinkSpeedExtSupported&q.info.LinkSpeedExtEnabled&q.info.LinkSpeedExtSupported, 8, 4, 2, 1)
		ext2 = highest(p.info.LinkSpeedExtEnabled2&p.info.LinkSpeedExtSupported2&q.info.LinkSpeedExtEnabled2&q.info.LinkSpeedExtSupported2, 1)
	}
	if ext2 != 0 {
		ext = 0
	}
	mlnx := p.mlnx.LinkSpeedEnabled & p.mlnx.LinkSpeedSupported & q.mlnx.LinkSpeedEnabled & q.mlnx.LinkSpeedSupported
	if ext != 0 || ext2 != 0 || speed != 4 { // FDR10 lies between QDR and FDR
		mlnx = 0
	}
	for _, end := range []*Port{p, q} {
		end.info.LinkSpeedExtActive2, end.mlnx.LinkSpeedActive = ext2, mlnx
		end.info.LinkWidthActive, end.info.LinkSpeedActive, end.info.LinkSpeedExtActive = mad.LinkWidth(max(width, 1)), max(speed, 1), ext
	}
}

func highest(bits uint8, order ...uint8) uint8 {
	for _, b := range order {
		if bits&b != 0 {
			return b
		}
	}
	return 0
}

// stateChanged sets the switch's StateChange bit and sends trap 128.
func (p *Port) stateChanged() {
	if p.node.sw == nil {
		return
	}
	p.node.sw.info.StateChange = true
	own := p.node.ports[0]
	p.node.trap(own, mad.TrapLinkState, func(details []byte) {
		details[0], details[1] = byte(own.info.LID>>8), byte(own.info.LID)
	})
}

// owner returns the port that holds the LID of a port, which is port 0 for all ports of a switch.
func (p *Port) owner() *Port {
	if p.node.sw != nil {
		return p.node.ports[0]
	}
	return p
}

// gid returns the GID of the port at index 0.
func (p *Port) gid() verbs.GID {
	var g verbs.GID
	for i := range 8 {
		g[i] = byte(p.info.GIDPrefix >> (56 - 8*i))
		g[8+i] = byte(uint64(p.guid) >> (56 - 8*i))
	}
	return g
}
