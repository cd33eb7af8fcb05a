package fabric

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// Fabric is the result of a discovery.
type Fabric struct {
	// Nodes are in the order in which C's libibnetdisc finds them: breadth first, by port number. The
	// first is the node where the discovery began.
	Nodes []*Node

	From *Port // the port of the first node where the discovery began

	// Problems lists failed requests and contradictory responses. They don't affect the rest of the
	// fabric, which is complete.
	Problems []*Problem

	MaxHops  int // length of the longest route
	Requests int // number of requests, without retries

	byGUID map[verbs.GUID]*Node
	byLID  map[uint16]*Port
}

// Node is a channel adapter, a switch or a router.
type Node struct {
	Info        mad.NodeInfo
	Description string          // as received; see mad.Printable
	Switch      *mad.SwitchInfo // nil unless the node is a switch that answered
	Ports       []*Port         // by number; unknown ports are nil; port 0 is the switch itself
	Route       mad.Route       // the first route that was found
}

// Port is a port of a node.
type Port struct {
	Node   *Node
	Number uint8
	GUID   verbs.GUID
	Info   *mad.PortInfo // nil if the port did not answer
	Mlnx   *mad.MlnxExtPortInfo
	Remote *Port // the port at the other end of the link, or nil
}

// Problem is a request that failed during a discovery, or a contradiction.
type Problem struct {
	Route mad.Route // to the node that was asked
	Node  *Node     // the node that was asked; nil if it is unknown
	Port  int       // the port of Node that was asked, or the last output port of the route; -1 if none
	Err   error     // a *verbs.Error that names the route
}

func (p *Problem) Error() string {
	s := ""
	if p.Node != nil {
		s = fmt.Sprintf("%q", mad.Printable(p.Node.Description))
		if p.Port >= 0 {
			s += fmt.Sprintf(" port %d", p.Port)
		}
		s += ": "
	}
	return s + p.Err.Error()
}

func (p *Problem) Unwrap() error { return p.Err }

// Contradictions in responses. The errors of Problems match them.
var (
	ErrDuplicateGUID = errors.New("another node has the same GUID")
	ErrLinkConflict  = errors.New("two ports claim the same link")
	ErrBadPort       = errors.New("the node names a port that it doesn't have")
	ErrTooLarge      = errors.New("the fabric is too large")
)

// LID returns the base LID of the port. All ports of a switch have the LID of its port 0.
func (p *Port) LID() uint16 {
	if p.Node.Info.Type == mad.NodeSwitch {
		return p.Node.LID()
	}
	if p.Info == nil {
		return 0
	}
	return p.Info.LID
}

// LMC returns the LMC of the port. All ports of a switch have the LMC of its port 0.
func (p *Port) LMC() uint8 {
	q := p
	if p.Node.Info.Type == mad.NodeSwitch {
		q = p.Node.Port(0)
	}
	if q == nil || q.Info == nil {
		return 0
	}
	return q.Info.LMC
}

// LinkUp reports whether the physical link of the port is up.
func (p *Port) LinkUp() bool { return p.Info != nil && p.Info.PhysLinkState == verbs.PhysLinkUp }

// Port returns the port with a number, or nil.
func (n *Node) Port(number int) *Port {
	if number < 0 || number >= len(n.Ports) {
		return nil
	}
	return n.Ports[number]
}

// LID returns the LID of a switch. It returns 0 for other nodes, whose ports have LIDs.
func (n *Node) LID() uint16 {
	if p := n.Port(0); n.Info.Type == mad.NodeSwitch && p != nil && p.Info != nil {
		return p.Info.LID
	}
	return 0
}

// Node returns the node with a GUID, or nil.
func (f *Fabric) Node(guid verbs.GUID) *Node { return f.byGUID[guid] }

// PortByLID returns the port with a LID, or nil. A switch has the LIDs of its port 0.
func (f *Fabric) PortByLID(lid uint16) *Port { return f.byLID[lid] }

// DiscoverOptions configures a discovery. Nil and the zero value have the defaults of C's tools.
type DiscoverOptions struct {
	From     mad.Route // route to the first node; the zero Route is this port
	MaxHops  int       // maximum number of hops after From; 0 means the limit of directed routes
	InFlight int       // maximum number of outstanding requests; 0 means 2; with more, busy switches may drop some
	MlnxExt  bool      // ask Mellanox devices about FDR10
}

// Bounds of what a hostile switch can make of a fabric. LIDs suffice for 48 k nodes. A port that was
// found takes half a kilobyte.
var (
	maxNodes    = 1 << 16
	maxPorts    = 1 << 20
	maxProblems = 1 << 16
)

// Discover finds all nodes and links of the subnet, beginning at the port of the client. It fails if
// the first node doesn't answer. Later failures are Problems of the fabric. If the context ends, it
// returns the nodes found so far, and an error that matches ctx.Err().
func (c *Client) Discover(ctx context.Context, opts *DiscoverOptions) (*Fabric, error) {
	var o DiscoverOptions
	if opts != nil {
		o = *opts
	}
	from, err := c.complete(o.From)
	if err != nil {
		return nil, err
	}
	if o.InFlight <= 0 {
		o.InFlight = 2
	}
	if o.MaxHops <= 0 || o.MaxHops > mad.MaxHops {
		o.MaxHops = mad.MaxHops
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &discovery{
		client: c, options: o, from: from, byGUID: make(map[verbs.GUID]*Node),
		work: make(chan *request, o.InFlight), done: make(chan *request, o.InFlight),
	}
	for range o.InFlight {
		go d.worker(ctx)
	}
	defer close(d.work)
	d.ask(&request{route: from, attr: &mad.NodeInfo{}, port: -1})
	d.run(ctx)
	f := d.fabric()
	if f.From == nil {
		if len(d.problems) > 0 {
			return nil, discoverFailed(d.problems[0].Err)
		}
		return nil, discoverFailed(ctx.Err())
	}
	if err := ctx.Err(); err != nil {
		return f, discoverFailed(fmt.Errorf("%d nodes were found: %w", len(f.Nodes), err))
	}
	return f, nil
}

func discoverFailed(err error) error {
	return &verbs.Error{Op: "discover", Object: "subnet", Err: err}
}

// request is a request of a discovery. The goroutine that waits for the response decodes it.
type request struct {
	route    mad.Route
	modifier uint32
	attr     mad.Attribute
	node     *Node // the node that is asked, or for NodeInfo, the node before it on the route
	port     int
	err      error
}

// discovery is a discovery in progress. One goroutine owns the graph. Workers send requests and
// decode responses.
type discovery struct {
	client  *Client
	options DiscoverOptions
	from    mad.Route

	work, done chan *request
	queue      []*request
	inFlight   int
	requests   int

	byGUID   map[verbs.GUID]*Node
	start    *Node
	fromPort uint8
	ports    int // of all nodes, including those that are not connected
	problems []*Problem
	unlisted int // problems beyond maxProblems
	tooLarge bool
}

func (d *discovery) worker(ctx context.Context) {
	for r := range d.work {
		r.err = d.client.Get(ctx, r.route, r.modifier, r.attr)
		d.done <- r
	}
}

func (d *discovery) ask(r *request) { d.queue = append(d.queue, r) }

// run sends requests and handles responses until there are no more. It waits for all outstanding
// requests, which end with the context.
func (d *discovery) run(ctx context.Context) {
	head := 0
	for {
		for d.inFlight < d.options.InFlight && head < len(d.queue) && ctx.Err() == nil {
			d.inFlight++
			d.requests++
			d.work <- d.queue[head]
			d.queue[head] = nil
			head++
		}
		if head == len(d.queue) {
			d.queue, head = d.queue[:0], 0
		}
		if d.inFlight == 0 {
			return
		}
		r := <-d.done
		d.inFlight--
		if r.err != nil {
			if ctx.Err() == nil {
				d.problem(r, r.err)
			}
			if _, ok := r.attr.(*mad.MlnxExtPortInfo); ok {
				d.extend(r, r.node.Ports[r.port])
			}
			continue
		}
		switch a := r.attr.(type) {
		case *mad.NodeInfo:
			d.nodeInfo(r, a)
		case *mad.NodeDescription:
			r.node.Description = a.Text
		case *mad.SwitchInfo:
			r.node.Switch = a
		case *mad.PortInfo:
			d.portInfo(r, a)
		case *mad.MlnxExtPortInfo:
			p := r.node.Ports[r.port]
			p.Mlnx = a
			d.extend(r, p)
		}
	}
}

// problem lists a failed request, whose error names the route already, or a contradiction.
func (d *discovery) problem(r *request, err error) {
	if !errors.As(err, new(*verbs.Error)) {
		err = contradiction(r.route, err)
	}
	if len(d.problems) >= maxProblems {
		d.unlisted++
		return
	}
	d.problems = append(d.problems, &Problem{Route: r.route, Node: r.node, Port: r.port, Err: err})
}

func contradiction(r mad.Route, err error) error {
	return &verbs.Error{Op: "examine", Object: "node at " + r.String(), Err: err}
}

// nodeInfo handles the NodeInfo of the first node, or of a node at the other end of a link.
func (d *discovery) nodeInfo(r *request, info *mad.NodeInfo) {
	n := d.byGUID[info.NodeGUID]
	isNew := n == nil
	switch {
	case int(info.LocalPort) > int(info.NumPorts) || info.LocalPort == 0 && info.Type != mad.NodeSwitch:
		d.problem(r, fmt.Errorf("%w: GUID 0x%016x responded through port %d of %d", ErrBadPort, uint64(info.NodeGUID), info.LocalPort, info.NumPorts))
		return
	case isNew && len(d.byGUID) == maxNodes:
		d.refuse(r, maxNodes, "nodes")
		return
	case isNew && d.ports+int(info.NumPorts) > maxPorts:
		d.refuse(r, maxPorts, "ports")
		return
	case isNew:
		d.ports += int(info.NumPorts)
		n = &Node{Info: *info, Ports: make([]*Port, int(info.NumPorts)+1), Route: r.route}
		d.byGUID[info.NodeGUID] = n
	case n.Info.NumPorts != info.NumPorts || n.Info.Type != info.Type || n.Info.SystemGUID != info.SystemGUID:
		d.problem(r, fmt.Errorf("%w: 0x%016x, %v with %d ports, was found by %v", ErrDuplicateGUID, uint64(info.NodeGUID), n.Info.Type, n.Info.NumPorts, n.Route))
		return
	}
	p := n.Ports[info.LocalPort]
	if p == nil {
		p = &Port{Node: n, Number: info.LocalPort}
		n.Ports[info.LocalPort] = p
	}
	p.GUID = info.PortGUID
	if r.node == nil {
		d.start, d.fromPort = n, info.LocalPort
	} else if !d.link(r, r.node.Ports[r.port], p) {
		return
	}
	if isNew {
		d.ask(&request{route: r.route, attr: &mad.NodeDescription{}, node: n, port: -1})
		if info.Type == mad.NodeSwitch {
			d.ask(&request{route: r.route, attr: &mad.SwitchInfo{}, node: n, port: -1})
			d.ask(&request{route: r.route, attr: &mad.PortInfo{}, node: n, port: 0})
		}
	}
	if info.Type != mad.NodeSwitch && p.Info == nil {
		d.ask(&request{route: r.route, modifier: uint32(p.Number), attr: &mad.PortInfo{}, node: n, port: int(p.Number)})
	}
}

// refuse ends the walk because the fabric has too many nodes or ports.
func (d *discovery) refuse(r *request, most int, what string) {
	if !d.tooLarge {
		d.problem(r, fmt.Errorf("%w: it has more than %d %s", ErrTooLarge, most, what))
	}
	d.tooLarge = true
}

// link connects two ports. It reports false if one of them is already connected to a third.
func (d *discovery) link(r *request, a, b *Port) bool {
	if a == b {
		d.problem(r, fmt.Errorf("%w: 0x%016x port %d is connected to itself", ErrLinkConflict, uint64(a.Node.Info.NodeGUID), a.Number))
		return false
	}
	if a.Remote == b && b.Remote == a {
		return true
	}
	for _, p := range []*Port{a, b} {
		if p.Remote != nil {
			d.problem(r, fmt.Errorf("%w: 0x%016x port %d is already connected to 0x%016x port %d", ErrLinkConflict,
				uint64(p.Node.Info.NodeGUID), p.Number, uint64(p.Remote.Node.Info.NodeGUID), p.Remote.Number))
			return false
		}
	}
	a.Remote, b.Remote = b, a
	return true
}

func (d *discovery) portInfo(r *request, info *mad.PortInfo) {
	n := r.node
	p := n.Ports[r.port]
	if p == nil {
		p = &Port{Node: n, Number: uint8(r.port), GUID: n.Info.PortGUID}
		n.Ports[r.port] = p
	}
	p.Info = info
	if n.Info.Type == mad.NodeSwitch && r.port == 0 {
		for i := 1; i <= int(n.Info.NumPorts); i++ {
			d.ask(&request{route: r.route, modifier: uint32(i), attr: &mad.PortInfo{}, node: n, port: i})
		}
	}
	if d.options.MlnxExt && hasMlnxExt(&n.Info) && p.LinkUp() && info.LinkSpeedActive == 4 && p.ExtSpeed() == 0 {
		d.ask(&request{route: r.route, modifier: uint32(r.port), attr: &mad.MlnxExtPortInfo{}, node: n, port: r.port})
		return
	}
	d.extend(r, p)
}

// extends reports whether the discovery continues through a port. It continues through all ports of a
// switch but the one it entered by, and at the start also through that one.
func extends(p *Port, enteredBy uint8, start *Node, fromPort uint8) bool {
	if p.Number == 0 || !p.LinkUp() {
		return false
	}
	return p.Node.Info.Type == mad.NodeSwitch && p.Number != enteredBy || p.Node == start && p.Number == fromPort
}

// extend requests the NodeInfo of the node at the other end of a port's link.
func (d *discovery) extend(r *request, p *Port) {
	if d.tooLarge || p.Info == nil || !extends(p, p.Info.LocalPort, d.start, d.fromPort) || len(r.route.Hops)-len(d.from.Hops) >= d.options.MaxHops || len(r.route.Hops) >= mad.MaxHops {
		return
	}
	if r.route.LID != 0 && p.Node.Info.Type != mad.NodeSwitch {
		return // hops after a LID can't begin at an adapter
	}
	next, err := d.client.complete(d.beyond(r.route, p))
	if err != nil {
		d.problem(r, err)
		return
	}
	d.ask(&request{route: next, attr: &mad.NodeInfo{}, node: p.Node, port: int(p.Number)})
}

// beyond returns a route to the node at the other end of a port's link. r leads to the node of the
// port. A directed route can't pass through an adapter, so beyond then returns the route to the
// adapter's neighbor.
func (d *discovery) beyond(r mad.Route, p *Port) mad.Route {
	if p.Node == d.start && p.Node.Info.Type != mad.NodeSwitch && len(r.Hops) > 1 {
		r.Hops = r.Hops[:len(r.Hops)-1]
		return r
	}
	return r.Append(p.Number)
}

// fabric returns the result. The order of the responses depends on the network, so it walks
// the graph again in the order in which C sends requests.
func (d *discovery) fabric() *Fabric {
	if d.unlisted > 0 {
		d.problems = append(d.problems, &Problem{Route: d.from, Port: -1, Err: contradiction(d.from, fmt.Errorf("%w: %d more problems are not listed", ErrTooLarge, d.unlisted))})
	}
	f := &Fabric{Problems: d.problems, Requests: d.requests, byGUID: d.byGUID, byLID: make(map[uint16]*Port)}
	if d.start == nil {
		return f
	}
	f.From = d.start.Ports[d.fromPort]

	// An event is a response: from a node, from port 0 of a switch, or about another port. There are
	// one or more for each port of the fabric, so an event is small.
	type event struct {
		node *Node
		from *Port // the port at the other end of the link to the node; nil at the start
		kind uint8
		by   uint8 // the port by which the route enters the node
		port uint8
	}
	seen := make(map[*Node]bool, len(d.byGUID))
	walked := make(map[*Port]bool) // ports of adapters; a hostile neighbor may lead to one again
	const (
		nodeEvent uint8 = iota
		port0Event
		portEvent
	)
	queue := []event{{kind: nodeEvent, node: d.start, by: d.fromPort}}
	for head := 0; head < len(queue); head++ {
		e := queue[head]
		n := e.node
		isSwitch := n.Info.Type == mad.NodeSwitch
		switch e.kind {
		case nodeEvent:
			if !seen[n] {
				seen[n] = true
				n.Route = d.from
				if e.from != nil {
					n.Route = d.beyond(e.from.Node.Route, e.from)
				}
				f.Nodes = append(f.Nodes, n)
				f.MaxHops = max(f.MaxHops, len(n.Route.Hops))
				if isSwitch {
					e.kind = port0Event
					queue = append(queue, e)
				}
			}
			if !isSwitch {
				e.kind, e.port = portEvent, e.by
				queue = append(queue, e)
			}
		case port0Event:
			for i := 1; i < len(n.Ports); i++ {
				e.kind, e.port = portEvent, uint8(i)
				queue = append(queue, e)
			}
		case portEvent:
			p := n.Ports[e.port]
			if p == nil || p.Remote == nil || !extends(p, e.by, d.start, d.fromPort) {
				continue
			}
			if !isSwitch {
				if walked[p] {
					continue
				}
				walked[p] = true
			}
			queue = append(queue, event{kind: nodeEvent, node: p.Remote.Node, by: p.Remote.Number, from: p})
		}
	}
	f.index()
	return f
}

// index fills the map from LIDs to ports.
func (f *Fabric) index() {
	for _, n := range f.Nodes {
		for _, p := range n.Ports {
			if p == nil || p.Info == nil || n.Info.Type == mad.NodeSwitch && p.Number != 0 {
				continue
			}
			for i := range 1 << p.Info.LMC {
				if lid := int(p.Info.LID) + i; p.Info.LID > 0 && lid < int(mad.MinMulticast) && f.byLID[uint16(lid)] == nil {
					f.byLID[uint16(lid)] = p
				}
			}
		}
	}
}

// ExtSpeed returns the active extended speed of the port: 1 for FDR, 2 for EDR, 4 for HDR, 8 for NDR,
// 32 for XDR, 0 for none. The CapMask of the port, or of port 0 of a switch, determines which of them
// are valid.
func (p *Port) ExtSpeed() int {
	if p.Info == nil {
		return 0
	}
	ext, ext2 := p.extCaps()
	switch {
	case ext2 && p.Info.LinkSpeedExtActive2 != 0:
		return int(p.Info.LinkSpeedExtActive2) << 5
	case ext:
		return int(p.Info.LinkSpeedExtActive)
	}
	return 0
}

// ExtSpeedSupported returns the extended speeds that the port supports, as a set of the values of
// ExtSpeed.
func (p *Port) ExtSpeedSupported() int {
	if p.Info == nil {
		return 0
	}
	speed := 0
	ext, ext2 := p.extCaps()
	if ext {
		speed = int(p.Info.LinkSpeedExtSupported)
	}
	if ext2 {
		speed |= int(p.Info.LinkSpeedExtSupported2) << 5
	}
	return speed
}

// extCaps reports whether the extended speeds of the port are valid, and whether those above NDR are.
func (p *Port) extCaps() (ext, ext2 bool) {
	q := p
	if p.Node.Info.Type == mad.NodeSwitch {
		q = p.Node.Port(0)
	}
	if q == nil || q.Info == nil {
		return false, false
	}
	ext = q.Info.CapMask&(1<<14) != 0
	return ext, ext && q.Info.CapMask&(1<<15) != 0 && q.Info.CapMask2&(1<<11) != 0
}

// hasMlnxExt reports whether a device has the attribute MlnxExtPortInfo.
func hasMlnxExt(n *mad.NodeInfo) bool {
	switch id := n.DeviceID; {
	case id >= 0xc738 && id <= 0xc73b, id == 0xc839, id == 0xcb20, id == 0xcf08, id == 0xcf09, id == 0xd2f0, id >= 0x1003 && id <= 0x101b, id == 0xa2d2:
		return true
	case n.VendorID != 0x119f: // Bull
		return false
	default:
		switch id {
		case 0x1b02, 0x1b50, 0x1ba0, 0x1bd0, 0x1bd1, 0x1bd2, 0x1bd3, 0x1bd4, 0x1bd5, 0x1bf0, 0x1b33, 0x1b73, 0x1b40, 0x1b41, 0x1b60, 0x1b61, 0x1b83, 0x1b93, 0x1b94,
			0x1bb4, 0x1bb5, 0x1bc4, 0x1bc5, 0x1bc6:
			return true
		}
		return false
	}
}
