package fabric

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// Names maps node GUIDs to names that replace the descriptions of the nodes. It is the content of
// C's ib-node-name-map.
type Names map[verbs.GUID]string

// Of returns the name of a node, in which spaces replace characters that are not printable.
func (names Names) Of(n *Node) string {
	if s, ok := names[n.Info.NodeGUID]; ok {
		return s
	}
	return mad.Printable(n.Description)
}

// ReadNames reads a node name map. Each line has a GUID in hexadecimal and a name in quotes. ReadNames
// skips empty lines and lines that begin with #.
func ReadNames(r io.Reader) (Names, error) {
	names := make(Names)
	in := bufio.NewScanner(r)
	for line := 1; in.Scan(); line++ {
		s := strings.TrimSpace(in.Text())
		if s == "" || s[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(strings.ReplaceAll(s, "\t", " "), " ")
		digits, ok := strings.CutPrefix(word, "0x")
		guid, err := strconv.ParseUint(digits, 16, 64)
		if !ok || err != nil {
			return nil, namesFailed(fmt.Errorf("line %d has no GUID: %q", line, s))
		}
		name := strings.FieldsFunc(strings.TrimLeft(rest, " "), func(r rune) bool { return r == '"' || r == '#' })
		if _, ok := names[verbs.GUID(guid)]; !ok && len(name) > 0 {
			names[verbs.GUID(guid)] = mad.Printable(name[0])
		}
	}
	if err := in.Err(); err != nil {
		return nil, namesFailed(err)
	}
	return names, nil
}

func namesFailed(err error) error {
	return &verbs.Error{Op: "read", Object: "node name map", Err: err}
}

// TopologyOptions selects the details that WriteTopology writes. Nil means the zero value.
type TopologyOptions struct {
	Names   Names
	Time    time.Time // time of the discovery, for the heading
	Full    bool      // write speed, width and VLCap of each link as numbers
	MaxHops bool      // write the length of routes and the number of requests in the heading
	Chassis bool      // write the nodes that share a system image GUID together, with their slots

	groups *grouping // nil unless Chassis is set
}

// NewestFirst returns the nodes of a type, or of all types if t is 0. The node that was found last
// comes first, as in the output of C's tools.
func (f *Fabric) NewestFirst(t mad.NodeType) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for i := len(f.Nodes) - 1; i >= 0; i-- {
			if n := f.Nodes[i]; (t == 0 || n.Info.Type == t) && !yield(n) {
				return
			}
		}
	}
}

// WriteTopology writes the fabric in the format of C's ibnetdiscover, which ibsim and other tools read.
func (f *Fabric) WriteTopology(w io.Writer, opts *TopologyOptions) error {
	var o TopologyOptions
	if opts != nil {
		o = *opts
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "#\n# Topology file: generated on %s\n#\n", o.Time.Format(time.ANSIC))
	if o.MaxHops {
		fmt.Fprintf(b, "# Reported max hops discovered: %d\n# Total MADs used: %d\n", f.MaxHops, f.Requests)
	}
	fmt.Fprintf(b, "# Initiated from node %016x port %016x\n", uint64(f.From.Node.Info.NodeGUID), uint64(f.From.Node.Info.PortGUID))
	node := func(n *Node) {
		o.writeNode(b, n)
		for _, p := range n.Ports[min(1, len(n.Ports)):] {
			if p != nil && p.Remote != nil {
				o.writeLink(b, p)
			}
		}
	}
	if o.Chassis {
		o.groups = f.groupByChassis()
		o.groups.write(b, node)
	}
	for _, t := range []mad.NodeType{mad.NodeSwitch, mad.NodeCA, mad.NodeRouter} {
		for n := range f.NewestFirst(t) {
			if t == mad.NodeRouter || o.groups.chassisNumber(n) == 0 {
				node(n)
			}
		}
	}
	return b.Flush()
}

func (o *TopologyOptions) writeNode(w io.Writer, n *Node) {
	fmt.Fprintf(w, "\nvendid=0x%x\ndevid=0x%x\n", n.Info.VendorID, n.Info.DeviceID)
	if n.Info.SystemGUID != 0 {
		fmt.Fprintf(w, "sysimgguid=0x%x", uint64(n.Info.SystemGUID))
		if number := o.groups.chassisNumber(n); number != 0 {
			fmt.Fprintf(w, "\t\t# Chassis %d", number)
		}
		fmt.Fprintln(w)
	}
	if n.Info.Type == mad.NodeSwitch {
		kind, lid, lmc := "base", uint16(0), uint8(0)
		if n.Switch != nil && n.Switch.EnhancedPort0 {
			kind = "enhanced"
		}
		if p := n.Port(0); p != nil {
			lid, lmc = p.LID(), p.LMC()
		}
		slot := ""
		if o.groups != nil {
			slot = "\t# " + o.groups.slot(n)
		}
		fmt.Fprintf(w, "switchguid=0x%x(%x)%s\nSwitch\t%d %s\t\t# \"%s\" %s port 0 lid %d lmc %d\n", uint64(n.Info.NodeGUID), uint64(n.Info.PortGUID), slot,
			n.Info.NumPorts, quotedID(n), o.Names.Of(n), kind, lid, lmc)
		return
	}
	kind := "Ca"
	if n.Info.Type == mad.NodeRouter {
		kind = "Rt"
	}
	fmt.Fprintf(w, "%sguid=0x%x\n%s\t%d %s\t\t# \"%s\"\n", strings.ToLower(kind), uint64(n.Info.NodeGUID), kind, n.Info.NumPorts, quotedID(n), mad.Printable(n.Description))
}

// quotedID returns the identifier of a node in topology files.
func quotedID(n *Node) string {
	letter := "?"
	switch n.Info.Type {
	case mad.NodeSwitch:
		letter = "S"
	case mad.NodeCA:
		letter = "H"
	case mad.NodeRouter:
		letter = "R"
	}
	return fmt.Sprintf("\"%s-%016x\"", letter, uint64(n.Info.NodeGUID))
}

func (o *TopologyOptions) writeLink(w io.Writer, p *Port) {
	r := p.Remote
	if p.Node.Info.Type == mad.NodeSwitch {
		fmt.Fprintf(w, "[%d]%s\t%s[%d]%s", p.Number, o.groups.external(p), quotedID(r.Node), r.Number, o.groups.external(r))
		if r.Node.Info.Type != mad.NodeSwitch {
			fmt.Fprintf(w, "(%x) ", uint64(r.GUID))
		}
		fmt.Fprintf(w, "\t\t# \"%s\" lid %d %s", o.Names.Of(r.Node), r.LID(), p.SpeedName())
	} else {
		fmt.Fprintf(w, "[%d](%x) \t%s[%d]%s", p.Number, uint64(p.GUID), quotedID(r.Node), r.Number, o.groups.external(r))
		if r.Node.Info.Type != mad.NodeSwitch {
			fmt.Fprintf(w, " (%x) ", uint64(r.GUID))
		}
		fmt.Fprintf(w, "\t\t# lid %d lmc %d \"%s\" lid %d %s", p.LID(), p.LMC(), o.Names.Of(r.Node), r.LID(), p.SpeedName())
	}
	if o.Full {
		var info mad.PortInfo
		if p.Info != nil {
			info = *p.Info
		}
		fmt.Fprintf(w, " s=%d w=%d v=%d", info.LinkSpeedActive, info.LinkWidthActive, info.VLCap)
	}
	fmt.Fprintln(w)
}

// SpeedName returns width and speed of the link in the format of ibnetdiscover, such as "4xHDR".
func (p *Port) SpeedName() string { return p.width() + p.speed() }

func (p *Port) width() string {
	if p.Info != nil {
		if n := p.Info.LinkWidthActive.Lanes(); n != 0 {
			return fmt.Sprintf("%dx", n)
		}
	}
	return "??"
}

func (p *Port) speed() string {
	if p.Info == nil {
		return "???"
	}
	ext := p.ExtSpeed()
	switch ext {
	case 0:
		if p.Info.LinkSpeedActive == 4 && p.Mlnx != nil && p.Mlnx.LinkSpeedActive&1 != 0 {
			return "FDR10"
		}
	case 1:
		return "FDR"
	case 2:
		return "EDR"
	case 4:
		return "HDR"
	case 8:
		return "NDR"
	case 32:
		return "XDR"
	default:
		return "???"
	}
	switch p.Info.LinkSpeedActive {
	case 1:
		return "SDR"
	case 2:
		return "DDR"
	case 4:
		return "QDR"
	}
	return "???"
}

// WritePorts writes a line for each known port, in the format of ibnetdiscover -p.
func (f *Fabric) WritePorts(w io.Writer, names Names) error {
	b := bufio.NewWriter(w)
	for n := range f.NewestFirst(0) {
		for i := len(n.Ports) - 1; i > 0; i-- {
			p := n.Ports[i]
			if p == nil {
				continue
			}
			fmt.Fprintf(b, "%2s %5d %2d 0x%016x %s %s", shortType(n), p.LID(), p.Number, uint64(p.GUID), p.width(), p.speed())
			if r := p.Remote; r != nil {
				fmt.Fprintf(b, " - %2s %5d %2d 0x%016x ( '%s' - '%s' )\n", shortType(r.Node), r.LID(), r.Number, uint64(r.GUID), names.Of(n), names.Of(r.Node))
			} else {
				fmt.Fprintf(b, "%36s'%s'\n", "", names.Of(n))
			}
		}
	}
	return b.Flush()
}

func shortType(n *Node) string {
	switch n.Info.Type {
	case mad.NodeSwitch:
		return "SW"
	case mad.NodeCA:
		return "CA"
	case mad.NodeRouter:
		return "RT"
	}
	return "??"
}

// WriteList writes a line for each node of a type, or of all types if t is 0, in the format of
// ibnetdiscover -l.
func (f *Fabric) WriteList(w io.Writer, t mad.NodeType, names Names) error {
	b := bufio.NewWriter(w)
	for _, k := range []struct {
		t    mad.NodeType
		name string
	}{{mad.NodeCA, "Ca"}, {mad.NodeSwitch, "Switch"}, {mad.NodeRouter, "Router"}} {
		if t != 0 && t != k.t {
			continue
		}
		for n := range f.NewestFirst(k.t) {
			fmt.Fprintf(b, "%s\t : 0x%016x ports %d devid 0x%x vendid 0x%x \"%s\"\n", k.name, uint64(n.Info.NodeGUID), n.Info.NumPorts, n.Info.DeviceID, n.Info.VendorID, names.Of(n))
		}
	}
	return b.Flush()
}

// links returns each link once, as the one of its ports that was found first.
func (f *Fabric) links() iter.Seq[*Port] {
	return func(yield func(*Port) bool) {
		seen := make(map[*Port]bool)
		for _, n := range f.Nodes {
			for _, p := range n.Ports {
				if p == nil || p.Remote == nil || seen[p] {
					continue
				}
				seen[p.Remote] = true
				if !yield(p) {
					return
				}
			}
		}
	}
}

// WriteDOT writes the fabric as a graph for Graphviz.
func (f *Fabric) WriteDOT(w io.Writer, names Names) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "graph fabric {")
	for _, n := range f.Nodes {
		shape := "ellipse"
		if n.Info.Type == mad.NodeSwitch {
			shape = "box"
		}
		fmt.Fprintf(b, "\t%s [label=%s, shape=%s];\n", quotedID(n), dotQuote(names.Of(n)), shape)
	}
	for p := range f.links() {
		fmt.Fprintf(b, "\t%s -- %s [taillabel=\"%d\", headlabel=\"%d\", label=\"%s\"];\n", quotedID(p.Node), quotedID(p.Remote.Node), p.Number, p.Remote.Number, p.SpeedName())
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

func dotQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// The JSON form of a fabric.
type (
	fabricJSON struct {
		From     portName    `json:"from"`
		Nodes    nodeList    `json:"nodes"`
		Links    linkList    `json:"links"`
		Problems problemList `json:"problems"`
		MaxHops  int         `json:"max_hops"`
		Requests int         `json:"requests"`
	}
	nodeJSON struct {
		GUID        string          `json:"guid"`
		Type        string          `json:"type"`
		Description string          `json:"description"`
		Route       string          `json:"route"`
		NodeInfo    json.RawMessage `json:"node_info"`
		SwitchInfo  json.RawMessage `json:"switch_info,omitempty"`
		Ports       portList        `json:"ports"`
	}
	portJSON struct {
		Port     uint8           `json:"port"`
		GUID     string          `json:"guid"`
		LID      uint16          `json:"lid"`
		Width    string          `json:"width"`
		Speed    string          `json:"speed"`
		PortInfo json.RawMessage `json:"port_info,omitempty"`
		Mlnx     json.RawMessage `json:"mlnx_ext_port_info,omitempty"`
	}
	portName struct {
		GUID string `json:"guid"` // of the node
		Port uint8  `json:"port"`
	}
)

// The lists of a fabric. They end at the limits of a discovery, so that a file can't have more.
type (
	nodeList    []nodeJSON
	portList    []portJSON
	linkList    [][2]portName
	problemList []string
)

func (l *portList) UnmarshalJSON(b []byte) error    { return unmarshalList(b, l, math.MaxUint8+1, nil) }
func (l *linkList) UnmarshalJSON(b []byte) error    { return unmarshalList(b, l, maxPorts, nil) }
func (l *problemList) UnmarshalJSON(b []byte) error { return unmarshalList(b, l, maxProblems, nil) }

// UnmarshalJSON counts the ports of all nodes, because in memory a port takes many times its bytes in
// the file.
func (l *nodeList) UnmarshalJSON(b []byte) error {
	ports := 0
	return unmarshalList(b, l, maxNodes, func(n *nodeJSON) error {
		if ports += len(n.Ports); ports > maxPorts+maxNodes { // a switch has a port 0 besides
			return fmt.Errorf("the nodes have more than %d ports", maxPorts)
		}
		return nil
	})
}

// unmarshalList decodes an array that has at most limit elements, each of which check accepts.
func unmarshalList[T any, L ~[]T](b []byte, list *L, limit int, check func(*T) error) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return fmt.Errorf("not an array: %w", cmp.Or(err, errors.New("found another value")))
	}
	*list = L{}
	for d.More() {
		if len(*list) == limit {
			return fmt.Errorf("an array has more than %d elements", limit)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		if check != nil {
			if err := check(&one); err != nil {
				return err
			}
		}
		*list = append(*list, one)
	}
	return nil
}

// maxAttributeJSON is the maximum length of an attribute in a file, in bytes. A PortInfo has some 1,500.
const maxAttributeJSON = 1 << 14

// parseAttribute decodes an attribute of a file.
func parseAttribute(raw json.RawMessage, a mad.Attribute) error {
	switch name := mad.LayoutOf(a).Name; {
	case len(raw) == 0:
		return fmt.Errorf("no %s", name)
	case len(raw) > maxAttributeJSON:
		return fmt.Errorf("%s of %d bytes", name, len(raw))
	}
	return mad.ParseJSON(raw, a)
}

// parseRoute returns the directed route that Route.String wrote, or an empty one.
func parseRoute(s string) mad.Route {
	const longest = 512 // more than MaxHops hops of three digits
	if i := strings.LastIndex(s, "; "); i >= 0 && len(s) <= longest {
		if r, err := mad.ParseRoute(s[i+2:]); err == nil {
			return r
		}
	}
	return mad.Route{}
}

// MarshalJSON returns the nodes with their attributes, the links and the problems. The keys of
// attributes are libibmad's names; see mad.AppendJSON. M_Keys are left out.
func (f *Fabric) MarshalJSON() ([]byte, error) {
	guid := func(g verbs.GUID) string { return fmt.Sprintf("0x%016x", uint64(g)) }
	name := func(p *Port) portName { return portName{guid(p.Node.Info.NodeGUID), p.Number} }
	out := fabricJSON{From: name(f.From), Nodes: nodeList{}, Links: linkList{}, Problems: problemList{}, MaxHops: f.MaxHops, Requests: f.Requests}
	for _, n := range f.Nodes {
		j := nodeJSON{GUID: guid(n.Info.NodeGUID), Type: n.Info.Type.String(), Description: n.Description, Route: n.Route.String(), Ports: portList{}}
		j.NodeInfo = mad.AppendJSON(nil, &n.Info, nil)
		if n.Switch != nil {
			j.SwitchInfo = mad.AppendJSON(nil, n.Switch, nil)
		}
		for _, p := range n.Ports {
			if p == nil {
				continue
			}
			k := portJSON{Port: p.Number, GUID: guid(p.GUID), LID: p.LID(), Width: p.width(), Speed: p.speed()}
			if p.Info != nil {
				k.PortInfo = mad.AppendJSON(nil, p.Info, nil)
			}
			if p.Mlnx != nil {
				k.Mlnx = mad.AppendJSON(nil, p.Mlnx, nil)
			}
			j.Ports = append(j.Ports, k)
		}
		out.Nodes = append(out.Nodes, j)
	}
	for p := range f.links() {
		out.Links = append(out.Links, [2]portName{name(p), name(p.Remote)})
	}
	for _, p := range f.Problems {
		out.Problems = append(out.Problems, mad.Printable(p.Error()))
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote. The limits of a discovery hold for the input, too.
func (f *Fabric) UnmarshalJSON(data []byte) error {
	if err := f.unmarshal(data); err != nil {
		return &verbs.Error{Op: "read", Object: "discovery", Err: err}
	}
	return nil
}

func (f *Fabric) unmarshal(data []byte) error {
	var in fabricJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*f = Fabric{MaxHops: in.MaxHops, Requests: in.Requests, byGUID: make(map[verbs.GUID]*Node), byLID: make(map[uint16]*Port)}
	ports := 0
	for _, j := range in.Nodes {
		n, err := j.node()
		if err != nil {
			return fmt.Errorf("node %.40q: %w", j.GUID, err)
		}
		if f.byGUID[n.Info.NodeGUID] != nil {
			return fmt.Errorf("node 0x%016x: %w", uint64(n.Info.NodeGUID), ErrDuplicateGUID)
		}
		if ports += int(n.Info.NumPorts); ports > maxPorts {
			return fmt.Errorf("the nodes have more than %d ports", maxPorts)
		}
		f.byGUID[n.Info.NodeGUID] = n
		f.Nodes = append(f.Nodes, n)
	}
	for _, link := range in.Links {
		a, err := f.named(link[0])
		if err != nil {
			return fmt.Errorf("link: %w", err)
		}
		b, err := f.named(link[1])
		if err != nil {
			return fmt.Errorf("link: %w", err)
		}
		switch {
		case a.Remote != nil || b.Remote != nil || a == b:
			return fmt.Errorf("node 0x%016x port %d: %w", uint64(a.Node.Info.NodeGUID), a.Number, ErrLinkConflict)
		case a.Number == 0 || b.Number == 0:
			return fmt.Errorf("a link of port 0: %w", ErrBadPort)
		}
		a.Remote, b.Remote = b, a
	}
	from, err := f.named(in.From)
	if err != nil {
		return fmt.Errorf("first port: %w", err)
	}
	f.From = from
	for _, text := range in.Problems {
		f.Problems = append(f.Problems, &Problem{Port: -1, Err: &verbs.Error{Err: errors.New(text)}})
	}
	f.index()
	return nil
}

// node returns the node of a file.
func (j *nodeJSON) node() (*Node, error) {
	n := &Node{Description: j.Description, Route: parseRoute(j.Route)}
	if err := parseAttribute(j.NodeInfo, &n.Info); err != nil {
		return nil, err
	}
	if j.SwitchInfo != nil {
		n.Switch = new(mad.SwitchInfo)
		if err := parseAttribute(j.SwitchInfo, n.Switch); err != nil {
			return nil, err
		}
	}
	n.Ports = make([]*Port, int(n.Info.NumPorts)+1)
	for _, k := range j.Ports {
		if int(k.Port) >= len(n.Ports) || n.Ports[k.Port] != nil {
			return nil, fmt.Errorf("port %d: %w", k.Port, ErrBadPort)
		}
		guid, err := strconv.ParseUint(k.GUID, 0, 64)
		if err != nil {
			return nil, fmt.Errorf("port %d: invalid GUID %.40q", k.Port, k.GUID)
		}
		p := &Port{Node: n, Number: k.Port, GUID: verbs.GUID(guid)}
		n.Ports[k.Port] = p
		if k.PortInfo != nil {
			p.Info = new(mad.PortInfo)
			if err := parseAttribute(k.PortInfo, p.Info); err != nil {
				return nil, fmt.Errorf("port %d: %w", k.Port, err)
			}
		}
		if k.Mlnx != nil {
			p.Mlnx = new(mad.MlnxExtPortInfo)
			if err := parseAttribute(k.Mlnx, p.Mlnx); err != nil {
				return nil, fmt.Errorf("port %d: %w", k.Port, err)
			}
		}
	}
	return n, nil
}

// named returns the port with a name in a file.
func (f *Fabric) named(name portName) (*Port, error) {
	guid, err := strconv.ParseUint(name.GUID, 0, 64)
	if err != nil {
		return nil, fmt.Errorf("invalid GUID %.40q", name.GUID)
	}
	if n := f.byGUID[verbs.GUID(guid)]; n != nil && n.Port(int(name.Port)) != nil {
		return n.Ports[name.Port], nil
	}
	return nil, fmt.Errorf("node 0x%016x port %d: %w", guid, name.Port, ErrBadPort)
}

// Change is a difference between two discoveries.
type Change struct {
	Kind     ChangeKind
	Old, New *Node // nil if the node doesn't exist
	Port     int   // number of the port that differs, or -1 for the node itself
}

// ChangeKind is the kind of a difference.
type ChangeKind uint8

// The kinds of differences.
const (
	NodeAdded ChangeKind = iota + 1
	NodeRemoved
	NodeChanged // type, number of ports or system image
	DescriptionChanged
	LinkAdded
	LinkRemoved
	LinkMoved // to another port
	LIDChanged
	StateChanged
	SpeedChanged // width or speed
)

var changeNames = [...]string{"", "node added", "node removed", "node changed", "description changed", "link added", "link removed", "link moved", "LID changed", "state changed", "speed changed"}

func (k ChangeKind) String() string {
	if int(k) < len(changeNames) && k > 0 {
		return changeNames[k]
	}
	return fmt.Sprintf("ChangeKind(%d)", uint8(k))
}

// String returns a line that describes the change, without control characters.
func (c Change) String() string {
	n := c.New
	if n == nil {
		n = c.Old
	}
	s := fmt.Sprintf("0x%016x \"%s\"", uint64(n.Info.NodeGUID), mad.Printable(n.Description))
	if c.Port >= 0 {
		s += fmt.Sprintf(" port %d", c.Port)
	}
	s += ": " + c.Kind.String()
	var before, after string
	switch c.Kind {
	case DescriptionChanged:
		before = mad.Printable(c.Old.Description)
		after = s
		return fmt.Sprintf("%s, was \"%s\"", after, before)
	case LinkAdded, LinkRemoved, LinkMoved:
		before, after = farEnd(c.Old, c.Port), farEnd(c.New, c.Port)
	case LIDChanged:
		before, after = portText(c.Old, c.Port, func(p *Port) string { return fmt.Sprint(p.LID()) }), portText(c.New, c.Port, func(p *Port) string { return fmt.Sprint(p.LID()) })
	case StateChanged:
		before, after = portText(c.Old, c.Port, stateText), portText(c.New, c.Port, stateText)
	case SpeedChanged:
		before, after = portText(c.Old, c.Port, (*Port).SpeedName), portText(c.New, c.Port, (*Port).SpeedName)
	}
	switch {
	case before != "" && after != "":
		s += ", " + before + " to " + after
	case before+after != "":
		s += ", " + before + after
	}
	return s
}

func stateText(p *Port) string { return p.Info.LinkState.String() }

func portText(n *Node, number int, text func(*Port) string) string {
	if p := n.Port(number); p != nil && p.Info != nil {
		return text(p)
	}
	return "unknown"
}

// farEnd returns the name of the port at the other end of a link.
func farEnd(n *Node, number int) string {
	p := n.Port(number)
	if p == nil || p.Remote == nil {
		return ""
	}
	return fmt.Sprintf("0x%016x port %d", uint64(p.Remote.Node.Info.NodeGUID), p.Remote.Number)
}

// Diff returns the differences between two discoveries of a fabric. They are in the order of old,
// followed by those of nodes that only the new one has.
func Diff(old, now *Fabric) []Change {
	var all []Change
	for _, a := range old.Nodes {
		b := now.Node(a.Info.NodeGUID)
		if b == nil {
			all = append(all, Change{NodeRemoved, a, nil, -1})
			continue
		}
		if a.Info.Type != b.Info.Type || a.Info.NumPorts != b.Info.NumPorts || a.Info.SystemGUID != b.Info.SystemGUID {
			all = append(all, Change{NodeChanged, a, b, -1})
		}
		if valid(a.Description) != valid(b.Description) {
			all = append(all, Change{DescriptionChanged, a, b, -1})
		}
		for i := range max(len(a.Ports), len(b.Ports)) {
			all = append(all, diffPort(a, b, i)...)
		}
	}
	for _, b := range now.Nodes {
		if old.Node(b.Info.NodeGUID) == nil {
			all = append(all, Change{NodeAdded, nil, b, -1})
		}
	}
	return all
}

// valid replaces invalid bytes of a description, as MarshalJSON does, so that a discovery from a file
// has the same description.
func valid(s string) string { return string([]rune(s)) }

func diffPort(a, b *Node, i int) []Change {
	var all []Change
	add := func(k ChangeKind) { all = append(all, Change{k, a, b, i}) }
	switch before, after := farEnd(a, i), farEnd(b, i); {
	case before == after:
	case before == "":
		add(LinkAdded)
	case after == "":
		add(LinkRemoved)
	default:
		add(LinkMoved)
	}
	p, q := a.Port(i), b.Port(i)
	if p == nil || q == nil || p.Info == nil || q.Info == nil {
		return all
	}
	if p.LID() != q.LID() && (a.Info.Type != mad.NodeSwitch || i == 0) {
		add(LIDChanged)
	}
	if p.Info.LinkState != q.Info.LinkState {
		add(StateChanged)
	}
	if p.SpeedName() != q.SpeedName() && p.LinkUp() && q.LinkUp() {
		add(SpeedChanged)
	}
	return all
}
