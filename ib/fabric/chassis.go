package fabric

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// Vendors and devices that grouping by chassis depends on.
const (
	vendorMellanox = 0x2c9
	vendorVoltaire = 0x8f1
	deviceIS4      = 0xbd36
)

// The numbers of slots in a chassis.
const (
	spineSlots = 18
	lineSlots  = 36
)

// grouping divides the nodes of a fabric by chassis, as ibnetdiscover -g does. A chassis has at least
// two nodes with the same system image GUID.
type grouping struct {
	all    []*chassis
	places map[*Node]*place // of nodes in a chassis, and of those whose descriptions name a slot
}

type chassis struct {
	number int // from 1 on; 0 if it has one node
	guid   verbs.GUID
	count  int
	spines [spineSlots + 1]*Node // by slot
	lines  [lineSlots + 1]*Node  // by slot
	nodes  []*Node               // without a slot
}

// place is the place of a node.
type place struct {
	chassis *chassis // nil if the node is in none
	kind    string   // Line or Spine; empty if the slot is unknown
	slot    int
	chip    int
	system  string // type of the chassis
}

func (f *Fabric) groupByChassis() *grouping {
	g := &grouping{places: make(map[*Node]*place)}
	for n := range f.NewestFirst(mad.NodeSwitch) {
		if p := mellanoxPlace(n); p != nil {
			g.places[n] = p
		}
	}
	byGUID := make(map[verbs.GUID]*chassis)
	grouped := func(n *Node) bool { return n.Info.SystemGUID != 0 && n.Info.VendorID != vendorVoltaire }
	for n := range f.NewestFirst(0) {
		if !grouped(n) {
			continue
		}
		c := byGUID[n.Info.SystemGUID]
		if c == nil {
			c = &chassis{guid: n.Info.SystemGUID}
			byGUID[c.guid] = c
			g.all = append(g.all, c)
		}
		c.count++
	}
	numbers := 0
	for n := range f.NewestFirst(0) {
		c := byGUID[n.Info.SystemGUID]
		if !grouped(n) || c.count < 2 {
			continue
		}
		if c.number == 0 {
			numbers++
			c.number = numbers
		}
		g.insert(c, n)
	}
	return g
}

// insert puts a node into its slot. If another node has the slot, the node is in no chassis.
func (g *grouping) insert(c *chassis, n *Node) {
	p := g.places[n]
	if p == nil {
		p = new(place)
		g.places[n] = p
	}
	var slot **Node
	switch p.kind {
	case "Line":
		slot = &c.lines[p.slot]
	case "Spine":
		slot = &c.spines[p.slot]
	default:
		c.nodes = append(c.nodes, n)
		p.chassis = c
		return
	}
	if *slot == nil {
		*slot = n
		p.chassis = c
	}
}

// mellanoxPlace returns the place that the description of an IS4 switch names, such as
// "MF0;host:SX6536/L05/U1", or nil if it names none.
func mellanoxPlace(n *Node) *place {
	if n.Info.VendorID != vendorMellanox || n.Info.DeviceID != deviceIS4 {
		return nil
	}
	rest, ok := strings.CutPrefix(n.Description, "MF0;")
	if !ok {
		return nil
	}
	_, rest, _ = strings.Cut(rest, ":")
	system, rest, _ := strings.Cut(rest, "/")
	slot, chip, ok := strings.Cut(rest, "/")
	slot, _, _ = strings.Cut(slot, ":") // the type of the board follows
	if !ok || slot == "" || !strings.HasPrefix(chip, "U") {
		return nil
	}
	const longest = 19 // characters of a type in C's programs
	p := &place{slot: leadingNumber(slot[1:]), chip: leadingNumber(chip[1:]), system: system[:min(len(system), longest)]}
	slots := lineSlots
	switch slot[0] {
	case 'L':
		p.kind = "Line"
	case 'S':
		p.kind, slots = "Spine", spineSlots
	default:
		return nil
	}
	if p.slot < 1 || p.slot > slots {
		return nil
	}
	return p
}

// leadingNumber returns the number at the start of s, or 0 if s does not begin with a number up to 255.
func leadingNumber(s string) int {
	n, err := strconv.ParseUint(s[:len(s)-len(strings.TrimLeft(s, "0123456789"))], 10, 8)
	if err != nil {
		return 0
	}
	return int(n)
}

// chassisNumber returns the number of the node's chassis, or 0.
func (g *grouping) chassisNumber(n *Node) int {
	if g == nil || g.places[n] == nil || g.places[n].chassis == nil {
		return 0
	}
	return g.places[n].chassis.number
}

// slot returns the type of the node's chassis and its slot.
func (g *grouping) slot(n *Node) string {
	if g.chassisNumber(n) == 0 || g.places[n].kind == "" {
		return ""
	}
	p := g.places[n]
	text := fmt.Sprintf("%s %d Chip %d", p.kind, p.slot, p.chip)
	if p.system != "" {
		text = mad.Printable(p.system) + " " + text
	}
	return text
}

// external returns the number on the panel of a port, in the format of topology files.
func (g *grouping) external(p *Port) string {
	if g == nil || p.Number < 1 || p.Number > 18 || g.places[p.Node] == nil || g.places[p.Node].kind != "Line" {
		return ""
	}
	return fmt.Sprintf("[ext %d]", p.Number)
}

// write writes the nodes of all chassis.
func (g *grouping) write(w io.Writer, node func(n *Node)) {
	for _, c := range g.all {
		if c.number == 0 {
			continue
		}
		fmt.Fprintf(w, "\nChassis %d (guid 0x%x)\n", c.number, uint64(c.guid))
		slots := func(title string, nodes []*Node) {
			fmt.Fprintf(w, "\n# %s", title)
			for _, n := range nodes {
				if n != nil {
					node(n)
				}
			}
		}
		slots("Spine Nodes", c.spines[:])
		slots("Line Nodes", c.lines[:])
		for _, kind := range []struct {
			title string
			t     mad.NodeType
		}{{"Chassis Switches", mad.NodeSwitch}, {"Chassis CAs", mad.NodeCA}} {
			fmt.Fprintf(w, "\n# %s", kind.title)
			for i := len(c.nodes) - 1; i >= 0; i-- {
				if c.nodes[i].Info.Type == kind.t {
					node(c.nodes[i])
				}
			}
		}
	}
	fmt.Fprint(w, "\nNon-Chassis Nodes\n")
}
