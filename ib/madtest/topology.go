package madtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// Topology describes the nodes of a subnet and the cables between them.
type Topology struct {
	Nodes  []NodeSpec
	Cables []Cable
}

// NodeSpec describes one node. NewSubnet assigns GUIDs to nodes whose GUIDs are zero.
type NodeSpec struct {
	Name        string // unique in the topology
	Description string // the NodeDescription; defaults to Name
	Type        mad.NodeType
	Ports       int // external ports, 1 to 254

	GUID       verbs.GUID
	SystemGUID verbs.GUID         // of the system image; defaults to GUID
	PortGUIDs  map[int]verbs.GUID // by port number; the default is the node's GUID plus the port number
	VendorID   uint32             // 24 bits
	DeviceID   uint16
	Links      map[int]LinkSpec // by port number, for ports that differ from the default

	// WideErrors makes the node report 64-bit error counters in PortCountersExtended. C's tools with
	// libumad2sim read the last of these counters wrongly.
	WideErrors bool
}

// LinkSpec holds the link widths and speeds that a port supports, as bits of PortInfo. The defaults
// for zero fields are 1X and 4X, up to 25.78125 Gb/s per lane (EDR).
type LinkSpec struct {
	Widths     uint8 // 1: 1X, 2: 4X, 4: 8X, 8: 12X, 16: 2X
	Speeds     uint8 // 1: 2.5, 2: 5, 4: 10 Gb/s per lane
	ExtSpeeds  uint8 // 1: FDR, 2: EDR, 4: HDR, 8: NDR
	ExtSpeeds2 uint8 // 1: XDR
	MlnxSpeeds uint8 // 1: FDR10, a speed of Mellanox devices; fabric.Client asks only devices with such a DeviceID for it
}

// Cable connects two ports.
type Cable struct {
	A, B End
}

// End is one end of a cable, which is a port of a node.
type End struct {
	Node string
	Port int
}

// Limits of a topology file.
const (
	maxNodes = 1 << 16
	maxLine  = 4096
)

// ParseTopology reads the format that ibnetdiscover writes and ibsim reads. A node has a line for
// itself, followed by a line for each of its cables. An empty line ends the node.
//
//	switchguid=0x200000(200000)
//	Switch	8 "S-0000000000200000"		# "Switch1" base port 0 lid 2 lmc 0
//	[1]	"H-0000000000100000"[1](100001) 		# "Hca1" lid 1 4xSDR
//
// The description of a node comes from its comment. A cable may be listed at one end or at both.
// ParseTopology supports ibsim's extensions w= and s= after a cable. Without them, width and speed come from a
// word such as 4xEDR in the comment; an unknown width or speed is an error. A cable that is listed at one end has
// that width and speed at both. ParseTopology refuses include and do.
func ParseTopology(r io.Reader) (*Topology, error) {
	p := topologyParser{t: new(Topology), names: map[string]int{}, cables: map[End]End{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, maxLine), maxLine)
	for n := 1; lines.Scan(); n++ {
		if err := p.line(lines.Text()); err != nil {
			return nil, failed("parse", "topology", "line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, failed("parse", "topology", "%w", err)
	}
	return p.end()
}

type topologyParser struct {
	t      *Topology
	names  map[string]int // indexes of nodes by name
	next   map[string]uint64
	node   *NodeSpec
	cables map[End]End
	order  []End // first end of each line, in order
}

func (p *topologyParser) line(line string) error {
	text, comment, _ := strings.Cut(line, "#")
	text = strings.TrimSpace(text)
	word, rest := text, ""
	if i := strings.IndexAny(text, " \t\""); i >= 0 {
		word, rest = text[:i], strings.TrimSpace(text[i:])
	}
	switch {
	case text == "":
		if comment == "" {
			p.node = nil // an empty line ends a node
		}
		return nil
	case text[0] == '[':
		return p.cable(text, comment)
	case strings.Contains(word, "="):
		return p.attribute(text)
	}
	switch word {
	case "Switch":
		return p.begin(mad.NodeSwitch, rest, comment)
	case "Hca", "Ca":
		return p.begin(mad.NodeCA, rest, comment)
	case "Rt", "Router":
		return p.begin(mad.NodeRouter, rest, comment)
	}
	return fmt.Errorf("%.40q is neither a node nor a cable", text)
}

// attribute parses a line such as "caguid=0x1000(…)", which belongs to the next node.
func (p *topologyParser) attribute(text string) error {
	key, value, _ := strings.Cut(text, "=")
	value, _, _ = strings.Cut(value, "(")
	if p.next == nil {
		p.next = map[string]uint64{}
	}
	switch key {
	case "vendid", "devid", "sysimgguid", "switchguid", "caguid", "rtguid":
		n, err := strconv.ParseUint(strings.TrimSpace(value), 0, 64)
		if err != nil {
			return fmt.Errorf("%s: invalid number %.40q", key, value)
		}
		p.next[key] = n
		return nil
	}
	return fmt.Errorf("unknown node attribute %.40q", key)
}

func (p *topologyParser) begin(t mad.NodeType, text, comment string) error {
	ports, rest, ok := strings.Cut(text, "\"")
	name, _, closed := strings.Cut(rest, "\"")
	n, err := strconv.Atoi(strings.TrimSpace(ports))
	switch {
	case !ok || !closed || name == "":
		return errors.New(`a node is a type, a number of ports, and a name in quotes: Switch 8 "S1"`)
	case err != nil || n < 1 || n > 254:
		return fmt.Errorf("invalid number of ports %.20q: expected 1 to 254", strings.TrimSpace(ports))
	case len(p.t.Nodes) == maxNodes:
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	if _, ok := p.names[name]; ok {
		return fmt.Errorf("duplicate node %q", name)
	}
	p.names[name] = len(p.t.Nodes)
	spec := NodeSpec{Name: name, Description: quoted(comment), Type: t, Ports: n}
	for _, key := range []string{"switchguid", "caguid", "rtguid"} {
		if v := p.next[key]; v != 0 {
			spec.GUID = verbs.GUID(v)
		}
	}
	spec.SystemGUID, spec.VendorID, spec.DeviceID = verbs.GUID(p.next["sysimgguid"]), uint32(p.next["vendid"]), uint16(p.next["devid"])
	p.next = nil
	p.t.Nodes = append(p.t.Nodes, spec)
	p.node = &p.t.Nodes[len(p.t.Nodes)-1]
	return nil
}

// quoted returns the first quoted string of a comment.
func quoted(comment string) string {
	_, rest, _ := strings.Cut(comment, "\"")
	text, _, closed := strings.Cut(rest, "\"")
	if !closed {
		return ""
	}
	return text
}

// cable parses a line such as `[1](guid) "name"[2](guid) w=4 s=2`.
func (p *topologyParser) cable(text, comment string) error {
	if p.node == nil {
		return errors.New("cable before the first node")
	}
	port, text, err := bracketed(text)
	if err != nil {
		return err
	}
	guid, text, err := inParentheses(text)
	if err != nil {
		return err
	}
	name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "\""), "\"")
	if !ok || name == "" {
		return errors.New(`a cable is a port, a name in quotes, and its port: [1] "H1"[2]`)
	}
	other, rest, err := bracketed(strings.TrimSpace(rest))
	if err != nil {
		return err
	}
	if _, rest, err = inParentheses(rest); err != nil {
		return err
	}
	if port > p.node.Ports {
		return fmt.Errorf("port %d of %q, which has %d ports", port, p.node.Name, p.node.Ports)
	}
	if guid != 0 {
		if p.node.PortGUIDs == nil {
			p.node.PortGUIDs = map[int]verbs.GUID{}
		}
		p.node.PortGUIDs[port] = guid
	}
	if err := p.link(port, rest, comment); err != nil {
		return err
	}
	a, b := End{p.node.Name, port}, End{name, other}
	if _, ok := p.cables[a]; ok {
		return fmt.Errorf("port %d of %q has two cables", port, p.node.Name)
	}
	p.cables[a] = b
	p.order = append(p.order, a)
	return nil
}

// link parses the width and speed of a cable. They are options such as w=4 s=2, or a word such as
// 4xEDR in ibnetdiscover's comment.
func (p *topologyParser) link(port int, options, comment string) error {
	var spec LinkSpec
	for _, option := range strings.Fields(options) {
		key, value, _ := strings.Cut(option, "=")
		n, err := strconv.ParseUint(value, 0, 8)
		switch {
		case err == nil && key == "w":
			bits, ok := map[uint64]uint8{1: 1, 4: 3, 8: 7, 12: 11}[n]
			if !ok {
				return fmt.Errorf("invalid width %d: expected 1, 4, 8 or 12", n)
			}
			spec.Widths = bits
		case err == nil && key == "s":
			bits, ok := map[uint64]uint8{1: 1, 2: 3, 4: 7}[n]
			if !ok {
				return fmt.Errorf("invalid speed %d: expected 1, 2 or 4", n)
			}
			spec.Speeds = bits
		default:
			return fmt.Errorf("unknown cable option %.40q", option)
		}
	}
	if spec == (LinkSpec{}) {
		var err error
		if spec, err = p.commentedLink(comment); err != nil {
			return err
		}
	}
	if spec != (LinkSpec{}) {
		p.node.setLink(port, spec)
	}
	return nil
}

func (n *NodeSpec) setLink(port int, spec LinkSpec) {
	if n.Links == nil {
		n.Links = map[int]LinkSpec{}
	}
	n.Links[port] = spec
}

// linkWord matches width and speed in ibnetdiscover's comments, known or not. ?? and ??? are its words for
// those that it doesn't know.
var linkWord = regexp.MustCompile(`^(\d+x|\?\?)([A-Z]+\d*|\?\?\?)$`)

// commentedLink returns the widths and speeds up to those of a word such as 4xEDR behind the last description
// of a comment. It returns zeros if the comment has no such word.
func (p *topologyParser) commentedLink(comment string) (LinkSpec, error) {
	for _, word := range strings.Fields(comment[strings.LastIndex(comment, "\"")+1:]) {
		parts := linkWord.FindStringSubmatch(word)
		if parts == nil {
			continue
		}
		width, knownWidth := map[string]uint8{"1x": 1, "2x": 17, "4x": 3, "8x": 7, "12x": 11}[parts[1]]
		spec, knownSpeed := map[string]LinkSpec{
			"SDR": {Speeds: 1}, "DDR": {Speeds: 3}, "QDR": {Speeds: 7}, "FDR10": {Speeds: 7, MlnxSpeeds: 1},
			"FDR": {Speeds: 7, ExtSpeeds: 1}, "EDR": {Speeds: 7, ExtSpeeds: 3}, "HDR": {Speeds: 7, ExtSpeeds: 7}, "NDR": {Speeds: 7, ExtSpeeds: 15},
			"XDR": {Speeds: 7, ExtSpeeds: 15, ExtSpeeds2: 1},
		}[parts[2]]
		switch {
		case !knownWidth:
			return spec, fmt.Errorf("unknown width in %.40q: expected 1x, 2x, 4x, 8x or 12x", word)
		case !knownSpeed:
			return spec, fmt.Errorf("unknown speed in %.40q: expected SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR", word)
		case spec.MlnxSpeeds != 0 && p.node.DeviceID == 0:
			return spec, fmt.Errorf("%s is a speed of Mellanox devices: the node has no devid= of one", word)
		}
		spec.Widths = width
		return spec, nil
	}
	return LinkSpec{}, nil
}

// bracketed parses a port number such as "[12]" at the start of text.
func bracketed(text string) (port int, rest string, err error) {
	number, rest, ok := strings.Cut(strings.TrimPrefix(text, "["), "]")
	port, convErr := strconv.Atoi(strings.TrimSpace(number))
	if !ok || !strings.HasPrefix(text, "[") || convErr != nil || port < 1 || port > 254 {
		return 0, "", fmt.Errorf("%.40q doesn't begin with a port in brackets, 1 to 254", text)
	}
	return port, strings.TrimSpace(rest), nil
}

// inParentheses parses an optional GUID such as "(100001)" at the start of text.
func inParentheses(text string) (guid verbs.GUID, rest string, err error) {
	if !strings.HasPrefix(text, "(") {
		return 0, text, nil
	}
	digits, rest, _ := strings.Cut(text[1:], ")")
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return 0, "", fmt.Errorf("(%.40s): expected a GUID, hexadecimal digits in parentheses", digits)
	}
	return verbs.GUID(n), strings.TrimSpace(rest), nil
}

// end checks that the two ends of each cable agree, and returns the topology.
func (p *topologyParser) end() (*Topology, error) {
	if len(p.t.Nodes) == 0 {
		return nil, failed("parse", "topology", "no nodes")
	}
	for _, a := range p.order {
		b := p.cables[a]
		i, ok := p.names[b.Node]
		switch {
		case !ok:
			return nil, failed("parse", "topology", "port %d of %q leads to %q, which does not exist", a.Port, a.Node, b.Node)
		case b.Port > p.t.Nodes[i].Ports:
			return nil, failed("parse", "topology", "port %d of %q leads to port %d of %q, which has %d ports", a.Port, a.Node, b.Port, b.Node, p.t.Nodes[i].Ports)
		}
		back, named := p.cables[b]
		if named && back != a {
			return nil, failed("parse", "topology", "port %d of %q leads to port %d of %q, and that to port %d of %q", a.Port, a.Node, b.Port, b.Node, back.Port, back.Node)
		}
		if !named {
			p.cables[b] = a
			if spec, ok := p.t.Nodes[p.names[a.Node]].Links[a.Port]; ok {
				p.t.Nodes[i].setLink(b.Port, spec)
			}
		}
		if !named || p.first(a, b) {
			p.t.Cables = append(p.t.Cables, Cable{a, b})
		}
	}
	return p.t, nil
}

// first reports whether a comes before b. Both name the same cable.
func (p *topologyParser) first(a, b End) bool {
	i, j := p.names[a.Node], p.names[b.Node]
	return i < j || i == j && a.Port < b.Port
}
