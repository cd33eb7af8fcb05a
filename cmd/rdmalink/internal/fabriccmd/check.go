package fabriccmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

type checkOptions struct {
	common
	walk
	thresholds string
}

var check = define(&program{
	name: "check", args: "[OPTIONS]",
	summary: "check the fabric for faults and print remedies",
	text: `
It reports links that are slower or narrower than both ends support, or that no
subnet manager has activated; ports with too many errors; duplicate GUIDs and LIDs;
pairs of nodes with more or fewer cables than other pairs of the same models; nodes
that differ from others of their model; a missing subnet manager, or several masters;
and nodes that do not respond. It changes nothing. The exit code is 1 if it
finds a problem.
`,
}, 0, append(append(commonRows[checkOptions](), walkRows[checkOptions]()...),
	cli.NewRow(0, "threshold-file", "FILE", "errors that ports may have (default "+defaultThresholds+", if it has any)", func(o *checkOptions, v string) error { o.thresholds = v; return nil }),
	namesRow[checkOptions](),
), showCheck)

// usualThresholds are the thresholds without a file. PortXmitWait means congestion, so it is no error.
var usualThresholds = map[string]uint64{
	"SymbolErrorCounter": 10, "LinkErrorRecoveryCounter": 10, "LinkDownedCounter": 10, "PortRcvErrors": 10, "PortRcvRemotePhysicalErrors": 100,
	"PortRcvSwitchRelayErrors": 100, "PortXmitDiscards": 100, "PortXmitConstraintErrors": 100, "PortRcvConstraintErrors": 100,
	"LocalLinkIntegrityErrors": 10, "ExcessiveBufferOverrunErrors": 10, "VL15Dropped": 100,
}

// finding is a problem.
type finding struct {
	kind         string
	node         *fabric.Node // nil if it concerns the whole fabric
	port         int          // -1 if it concerns the whole node
	text, remedy string
}

// examination is the state of the command.
type examination struct {
	ctx      context.Context
	f        *fabric.Fabric
	c        *fabric.Client
	names    fabric.Names
	findings []finding
}

func (e *examination) add(kind string, n *fabric.Node, port int, remedy, format string, args ...any) {
	e.findings = append(e.findings, finding{kind, n, port, fmt.Sprintf(format, args...), remedy})
}

// where returns the name of a node or of one of its ports.
func (e *examination) where(n *fabric.Node, port int) string {
	if n == nil {
		return "fabric"
	}
	s := fmt.Sprintf("\"%s\" (%s)", e.names.Of(n), guid(n.Info.NodeGUID))
	if port >= 0 {
		s += fmt.Sprintf(" port %d", port)
	}
	return s
}

func showCheck(ctx context.Context, s *session, o *checkOptions, _ []string) error {
	names, err := s.nodeNames()
	if err != nil {
		return err
	}
	limits, err := s.thresholds(o.thresholds)
	if err != nil {
		return err
	}
	if len(limits.most) == 0 {
		limits.most = usualThresholds
	}
	c, err := s.open()
	if err != nil {
		return err
	}
	f, err := s.discover(ctx, o.walk)
	if f == nil {
		return err
	}
	if err != nil {
		s.Note("%s; only the nodes found until then were checked", cli.PlainLine(err))
	}
	e := &examination{ctx: ctx, f: f, c: c, names: names}
	e.answers()
	e.managers()
	e.duplicates()
	links := e.links()
	e.cables()
	e.twins()
	e.counters(limits)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed := e.show(s, links); failed != nil {
		return failed
	}
	if err != nil || len(e.findings) > 0 {
		return cli.ExitCode(cli.ExitFailed)
	}
	return nil
}

func (e *examination) show(s *session, links int) error {
	if s.JSON {
		list := []table.Table{}
		for _, f := range e.findings {
			t := table.Table{{Key: "kind", Value: f.kind}}
			if f.node != nil {
				t.Add("node", e.names.Of(f.node))
				t.Add("node_guid", guid(f.node.Info.NodeGUID))
			}
			if f.port >= 0 {
				t.Add("port", f.port)
			}
			t.Add("text", f.text)
			t.Add("remedy", f.remedy)
			list = append(list, t)
		}
		return s.WriteJSON(table.Table{{Key: "nodes", Value: len(e.f.Nodes)}, {Key: "links", Value: links}, {Key: "findings", Value: list}})
	}
	for _, f := range e.findings {
		if err := s.Printf("%s: %s\n    %s\n", e.where(f.node, f.port), f.text, f.remedy); err != nil {
			return err
		}
	}
	return s.Printf("%d nodes, %d links, %d findings\n", len(e.f.Nodes), links, len(e.findings))
}

// answers reports the problems of the discovery.
func (e *examination) answers() {
	for _, p := range e.f.Problems {
		kind, remedy := "unanswered", "look at the node behind this port: its power, its cable, its firmware; if it has an M_Key, give it with --m_key"
		switch {
		case errors.Is(p.Err, fabric.ErrDuplicateGUID):
			kind, remedy = "duplicate GUID", "give one of the two devices a GUID of its own, with its vendor's tool"
		case errors.Is(p.Err, fabric.ErrLinkConflict):
			kind, remedy = "link conflict", "run the command again; if the links did not change meanwhile, a node answers for another: look at its firmware"
		case errors.Is(p.Err, fabric.ErrBadPort), errors.Is(p.Err, fabric.ErrTooLarge):
			kind, remedy = "bad answer", "update the firmware of the node, or replace it"
		}
		e.add(kind, p.Node, p.Port, remedy, "%s", cli.PlainLine(p))
	}
}

// endPorts yields the ports that have their own LIDs.
func (e *examination) endPorts(yield func(*fabric.Port) bool) {
	for _, n := range e.f.Nodes {
		for _, p := range n.Ports {
			if p != nil && p.Info != nil && (p.Number == 0) == (n.Info.Type == mad.NodeSwitch) && !yield(p) {
				return
			}
		}
	}
}

// managers checks the subnet managers.
func (e *examination) managers() {
	const start = "start one, such as opensm, on a host or switch of this fabric"
	const isSM = 1 << 1
	masters := 0
	for p := range e.endPorts {
		if p.Info.CapMask&isSM == 0 || p.LID() == 0 {
			continue
		}
		var info mad.SMInfo
		if err := e.c.Get(e.ctx, mad.ByLID(p.LID()), 0, &info); err != nil {
			e.add("subnet manager", p.Node, int(p.Number), "check the subnet manager on that node: it is registered but does not respond", "%s", cli.PlainLine(err))
			continue
		}
		if info.State != mad.SMMaster {
			continue
		}
		if masters++; masters > 1 {
			e.add("subnet manager", p.Node, int(p.Number), "only one may be master: check that they can reach each other and have the same SM_Key", "this is master %d of the fabric", masters)
		}
	}
	if masters == 0 {
		e.add("subnet manager", nil, -1, start, "no port has a subnet manager that is master")
	}
}

// duplicates reports LIDs and port GUIDs that belong to two ports.
func (e *examination) duplicates() {
	lids := make(map[uint16]*fabric.Port)
	guids := make(map[verbs.GUID]*fabric.Port)
	for p := range e.endPorts {
		if q := guids[p.GUID]; q != nil && p.GUID != 0 {
			e.add("duplicate GUID", p.Node, int(p.Number), "change the GUID of one of the devices with its vendor's tool", "%[2]s has the same port GUID, %[1]s", guid(p.GUID), e.where(q.Node, int(q.Number)))
		}
		guids[p.GUID] = p
		for lid := int(p.LID()); p.LID() != 0 && lid < int(p.LID())+1<<p.LMC() && lid < int(mad.MinMulticast); lid++ {
			if q := lids[uint16(lid)]; q != nil {
				e.add("duplicate LID", p.Node, int(p.Number), "reassign the LIDs: restart the subnet manager with opensm -r, or look for a second one", "%[2]s has the same LID, %[1]d", lid, e.where(q.Node, int(q.Number)))
				break
			}
			lids[uint16(lid)] = p
		}
	}
}

// links checks each link, and returns the number of links.
func (e *examination) links() int {
	count := 0
	seen := make(map[*fabric.Port]bool)
	for _, n := range e.f.Nodes {
		for _, p := range n.Ports {
			if p == nil || p.Remote == nil || seen[p] || p.Info == nil {
				continue
			}
			seen[p.Remote] = true
			count++
			far := e.where(p.Remote.Node, int(p.Remote.Number))
			if p.Info.LinkState != verbs.PortActive {
				e.add("inactive link", n, int(p.Number), "check that the subnet manager is running, and its log for this link", "the link to %s is %s", far, portText("LinkState", p.Info))
				continue
			}
			width, speed := couldBe(p)
			if text := strings.TrimSpace(width + " " + speed); text != "" {
				e.add("slow link", n, int(p.Number), "reseat or replace the cable, then reset the port with rdmalink fabric port; check which speeds and widths are enabled at both ends",
					"the link to %s runs at %s %s: %s", far, portText("LinkWidthActive", p.Info), speedText(p), text)
			}
		}
	}
	return count
}

// model is the key of nodes that should be equal. Switches with hosts are leaves, which may differ
// from spines of the same type.
type model struct {
	kind   mad.NodeType
	ports  uint8
	vendor uint32
	device uint16
	leaf   bool
}

func modelOf(n *fabric.Node) model {
	m := model{n.Info.Type, n.Info.NumPorts, n.Info.VendorID, n.Info.DeviceID, false}
	for _, p := range n.Ports {
		if n.Info.Type == mad.NodeSwitch && p != nil && p.Remote != nil && p.Remote.Node.Info.Type != mad.NodeSwitch {
			m.leaf = true
		}
	}
	return m
}

// least is the number of values without which usual has no result.
const least = 3

// usual returns the value of more than half of all, if there is one.
func usual[T any, V comparable](all []T, value func(T) V) (most V, ok bool) {
	counts := make(map[V]int)
	for _, t := range all {
		v := value(t)
		if counts[v]++; counts[v]*2 > len(all) {
			most, ok = v, true
		}
	}
	return most, ok && len(all) >= least
}

// pair is a pair of nodes with cables between them.
type pair struct {
	a, b   *fabric.Node
	cables int
}

// cables reports pairs of nodes whose number of cables differs from that of most pairs of the same models.
func (e *examination) cables() {
	type ends struct{ a, b *fabric.Node }
	type kinds struct{ a, b model }
	pairs := make(map[ends]*pair)
	groups := make(map[kinds][]*pair)
	var order []kinds
	for _, n := range e.f.Nodes {
		for _, p := range n.Ports {
			if p == nil || p.Remote == nil || p.Remote.Node == n {
				continue
			}
			key := ends{n, p.Remote.Node}
			if pairs[ends{key.b, key.a}] != nil {
				continue // counted at the other end
			}
			if pairs[key] == nil {
				pairs[key] = &pair{a: n, b: key.b}
				kind := kinds{modelOf(key.a), modelOf(key.b)}
				if _, ok := groups[kinds{kind.b, kind.a}]; ok {
					kind = kinds{kind.b, kind.a}
				}
				if groups[kind] == nil {
					order = append(order, kind)
				}
				groups[kind] = append(groups[kind], pairs[key])
			}
			pairs[key].cables++
		}
	}
	for _, kind := range order {
		most, ok := usual(groups[kind], func(p *pair) int { return p.cables })
		for _, p := range groups[kind] {
			if ok && p.cables != most {
				e.add("cabling", p.a, -1, "compare the cables of this pair with the plan of the fabric", "%d cables lead to %s; most such pairs have %d", p.cables, e.where(p.b, -1), most)
			}
		}
	}
}

// trait is a property that the nodes of a model should share.
type trait struct {
	name, remedy string
	value        func(*fabric.Node) string
}

var traits = []trait{
	{"revision", "find out whether the device is another stepping, and whether its firmware is that of the others", func(n *fabric.Node) string { return fmt.Sprintf("0x%x", n.Info.Revision) }},
	{"size of the P_Key table", "bring its firmware to the version of the others", func(n *fabric.Node) string { return fmt.Sprint(n.Info.PartitionCap) }},
	{"forwarding tables", "bring its firmware to the version of the others", func(n *fabric.Node) string {
		if n.Switch == nil {
			return ""
		}
		return fmt.Sprintf("%d LIDs, %d MLIDs, enhanced port 0 %t", n.Switch.LinearFDBCap, n.Switch.MulticastFDBCap, n.Switch.EnhancedPort0)
	}},
	{"capabilities of links", "look which ports were set to fewer speeds or widths, and at the firmware", func(n *fabric.Node) string {
		var all []string
		for _, p := range n.Ports {
			if p != nil && p.Info != nil && p.Number > 0 {
				all = append(all, fmt.Sprintf("%s, %s, MTU %s, %s", p.Info.LinkWidthSupported, fastest(p), portText("MtuCap", p.Info), portText("VLCap", p.Info)))
			}
		}
		slices.Sort(all)
		return strings.Join(slices.Compact(all), "; ")
	}},
	{"number of links", "look for cables that are missing, broken or not planned", func(n *fabric.Node) string {
		count := 0
		for _, p := range n.Ports {
			if p != nil && p.Remote != nil {
				count++
			}
		}
		return fmt.Sprint(count)
	}},
}

// fastest returns the highest speed that a port supports.
func fastest(p *fabric.Port) string {
	if ext := p.ExtSpeedSupported(); ext != 0 {
		return extText(highestBit(ext))
	}
	return portText("LinkSpeedActive", &mad.PortInfo{LinkSpeedActive: uint8(highestBit(int(p.Info.LinkSpeedSupported)))})
}

// twins reports nodes that differ from the others of their model.
func (e *examination) twins() {
	groups := make(map[model][]*fabric.Node)
	for _, n := range e.f.Nodes {
		m := modelOf(n)
		groups[m] = append(groups[m], n)
	}
	order := make([]model, 0, len(groups))
	for m := range groups {
		order = append(order, m)
	}
	slices.SortFunc(order, func(a, b model) int {
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	for _, m := range order {
		for _, t := range traits {
			most, ok := usual(groups[m], t.value)
			for _, n := range groups[m] {
				if v := t.value(n); ok && v != most {
					e.add("differs from its twins", n, -1, t.remedy, "%s is %s; most of its model have %s", t.name, v, most)
				}
			}
		}
	}
}

// counters reports ports whose error counters exceed the thresholds.
func (e *examination) counters(limits thresholds) {
	note := func(format string, args ...any) {
		e.add("unanswered", nil, -1, "look at the node: subnet management answers, performance management does not", format, args...)
	}
	a := newPMA(e.c, note)
	for _, n := range e.f.Nodes {
		for _, p := range n.Ports {
			if p == nil || p.Info == nil || p.LID() == 0 || p.Remote == nil && p != e.f.From || e.ctx.Err() != nil {
				continue
			}
			info, err := e.c.ClassPortInfo(e.ctx, a.to(p.LID()), mad.ClassPerf)
			if err != nil {
				a.failed("ClassPortInfo", e.names.Of(n), p.LID(), p.Number, err)
				break // the agent is the same for all ports
			}
			read, ok := a.read(e.ctx, info, e.names.Of(n), p.LID(), p.Number)
			if !ok {
				break
			}
			var text strings.Builder
			for _, f := range read.above(limits, map[string]bool{"PortXmitWait": limits.most["PortXmitWait"] == 0}) {
				text.WriteString(f.String())
			}
			if text.Len() > 0 {
				e.add("errors", n, int(p.Number), "reset the counters with rdmalink fabric errors -k and watch them with fabric counters -i; if they rise, clean or replace the cable",
					"too many errors:%s", &text)
			}
		}
	}
}
