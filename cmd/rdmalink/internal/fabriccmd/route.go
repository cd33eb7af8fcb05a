package fabriccmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

type routeOptions struct {
	common
	target
	walk
	all, brief, multicast bool
}

var route = define(&program{
	name: "route", args: "[OPTIONS] [ADDRESS [FIRST [LAST]]]",
	summary: "print the forwarding tables of a switch, or of all switches",
	text: `
FIRST and LAST limit the LIDs. Without an address it discovers the fabric and prints
the tables of each switch.
`,
}, 3, append(append(append(commonRows[routeOptions](), targetRows[routeOptions]()...), walkRows[routeOptions]()...),
	smRow[routeOptions](),
	cli.NewRow('a', "all", "", "also print entries without an output port", cli.Flag(func(o *routeOptions) *bool { return &o.all })),
	cli.NewRow('n', "no_dests", "", "don't look up the destinations", cli.Flag(func(o *routeOptions) *bool { return &o.brief })),
	cli.NewRow('M', "Multicast", "", "print the multicast forwarding tables", cli.Flag(func(o *routeOptions) *bool { return &o.multicast })),
	namesRow[routeOptions](),
), showRoutes)

// routing is the state of the command.
type routing struct {
	*session
	o           *routeOptions
	c           *fabric.Client
	names       fabric.Names
	first, last int // range of LIDs; if last is 0, it has no end
	list        []table.Table
	fabric      *fabric.Fabric // nil unless it was discovered; then destinations aren't queried

	// The LIDs of the last destination with several LIDs.
	base, end int
	portGUID  verbs.GUID
}

func showRoutes(ctx context.Context, s *session, o *routeOptions, words []string) error {
	r := &routing{session: s, o: o, list: []table.Table{}}
	for i, word := range words[min(1, len(words)):] {
		n, err := strconv.ParseUint(word, 0, 16)
		if err != nil {
			return cli.UsageError{Text: fmt.Sprintf("invalid LID %q: expected a number up to 0xffff", word)}
		}
		*[]*int{&r.first, &r.last}[i] = int(n)
	}
	var err error
	if r.names, err = s.nodeNames(); err != nil {
		return err
	}
	if r.c, err = s.open(); err != nil {
		return err
	}
	if len(words) == 0 {
		err = r.every(ctx)
	} else {
		var to mad.Route
		if to, err = s.route(ctx, r.c, o.target, words[0]); err != nil {
			return err
		}
		err = r.table(ctx, to)
	}
	if s.JSON && (err == nil || r.fabric != nil || len(r.list) > 0) {
		return errors.Join(s.WriteJSON(r.list), err)
	}
	return err
}

// every prints the tables of all switches.
func (r *routing) every(ctx context.Context) error {
	f, err := r.discover(ctx, r.o.walk)
	if f == nil {
		return err
	}
	r.fabric = f
	failed := err != nil
	for n := range f.NewestFirst(mad.NodeSwitch) {
		if err := r.table(ctx, n.Route); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.Note("%s", cli.PlainLine(err))
			failed = true
		}
	}
	if err != nil {
		r.Note("%s", cli.PlainLine(err))
	}
	if code := r.problems(f); code != nil {
		return code
	}
	if failed {
		return cli.ExitCode(cli.ExitFailed)
	}
	return nil
}

// table prints the table of the switch at the end of a route.
func (r *routing) table(ctx context.Context, to mad.Route) error {
	var node mad.NodeInfo
	var d mad.NodeDescription
	var sw mad.SwitchInfo
	for _, a := range []mad.Attribute{&node, &d} {
		if err := r.c.Get(ctx, to, 0, a); err != nil {
			return err
		}
	}
	text := name(r.names, node.NodeGUID, d.Text)
	if node.Type != mad.NodeSwitch {
		return fmt.Errorf("%v (%q) is not a switch: only switches have forwarding tables", to, text)
	}
	if err := r.c.Get(ctx, to, 0, &sw); err != nil {
		return err
	}
	t := table.Table{{Key: "switch", Value: text}, {Key: "node_guid", Value: guid(node.NodeGUID)}}
	if r.o.multicast {
		return r.multicast(ctx, to, node, sw, t, text)
	}
	return r.unicast(ctx, to, node, sw, t, text)
}

func (r *routing) unicast(ctx context.Context, to mad.Route, node mad.NodeInfo, sw mad.SwitchInfo, t table.Table, text string) error {
	last := r.last
	if top := int(sw.LinearFDBTop); last == 0 || last > top {
		last = top
	}
	last = min(last, int(mad.MinMulticast)-1)
	if !r.JSON {
		if err := r.Printf("Unicast lids [0x%x-0x%x] of switch %v guid 0x%016x (%s):\n  Lid  Out   Destination\n       Port     Info \n", r.first, last, to, uint64(node.NodeGUID), text); err != nil {
			return err
		}
	}
	r.end, r.base = 0, 0
	routes := []table.Table{}
	var failed error
	n := 0
	// C's programs round the last LID up to a block, so they don't read a block that begins with the
	// last LID.
	for block := r.first / 64; block < (last+63)/64; block++ {
		var lft mad.LinearForwardingTable
		if failed = r.c.Get(ctx, to, uint32(block), &lft); failed != nil {
			failed = fmt.Errorf("block %d of the forwarding table: %w", block, failed)
			break
		}
		for lid := max(block*64, r.first); lid < min(block*64+64, last+1); lid++ {
			out := lft.Ports[lid%64]
			valid := out <= node.NumPorts
			if !valid && !r.o.all {
				continue
			}
			n++
			destination := r.destination(ctx, lid, valid)
			if r.JSON {
				e := table.Table{{Key: "lid", Value: lid}, {Key: "port", Value: uint32(out)}}
				e.AddText("destination", strings.TrimPrefix(destination, ": "))
				routes = append(routes, e)
				continue
			}
			if err := r.Printf("0x%04x %03d %s\n", lid, out, destination); err != nil {
				return err
			}
		}
	}
	if r.JSON {
		t.Add("unicast", routes)
		r.list = append(r.list, t)
		return failed
	}
	if failed != nil {
		return failed
	}
	return r.Printf("%d %slids dumped \n", n, r.valid())
}

func (r *routing) valid() string {
	if r.o.all {
		return ""
	}
	return "valid "
}

// destination describes the port with a LID, in the words of C's programs.
func (r *routing) destination(ctx context.Context, lid int, valid bool) string {
	if r.o.brief {
		return ""
	}
	if lid <= r.end {
		path := fmt.Sprintf(": (path #%d", lid-r.base+1)
		switch {
		case !valid:
			return fmt.Sprintf(": (path #%d - illegal port)", lid-r.base)
		case r.portGUID == 0:
			return path + fmt.Sprintf(" out of %d)", r.end-r.base+1)
		}
		return path + fmt.Sprintf(" out of %d: portguid %s)", r.end-r.base+1, guid(r.portGUID))
	}
	if !valid {
		return ": (illegal port)"
	}
	r.portGUID = 0
	var node mad.NodeInfo
	var description string
	var base, lmc int
	if r.fabric != nil {
		p := r.fabric.PortByLID(uint16(lid))
		if p == nil {
			return ": (node info not available fabric scan)"
		}
		node, description, base, lmc = p.Node.Info, p.Node.Description, int(p.LID()), int(p.LMC())
		node.PortGUID = p.GUID
	} else {
		var d mad.NodeDescription
		var info mad.PortInfo
		for _, a := range []mad.Attribute{&d, &info, &node} {
			if err := r.c.Get(ctx, mad.ByLID(uint16(lid)), 0, a); err != nil {
				return ": (unknown node and type)"
			}
		}
		description, base, lmc = d.Text, int(info.LID), int(info.LMC)
	}
	r.portGUID = node.PortGUID
	if lmc > 0 {
		r.base, r.end = base, base+1<<lmc-1
	}
	return fmt.Sprintf(": (%v portguid %s: '%s')", node.Type, guid(node.PortGUID), name(r.names, node.NodeGUID, description))
}

func (r *routing) multicast(ctx context.Context, to mad.Route, node mad.NodeInfo, sw mad.SwitchInfo, t table.Table, text string) error {
	const least, most, inBlock, inPosition = 0xc000, 0xfffe, 32, 16
	first, last := r.first, r.last
	if highest := least + int(sw.MulticastFDBCap) - 1; last == 0 || last > highest {
		last = highest
	}
	if top := int(sw.MulticastFDBTop); !r.o.all && top != 0 && top < last && top >= least-1 {
		last = top
	}
	first, last = max(first, least), min(last, most)
	ports := int(node.NumPorts)
	if !r.JSON {
		heading := fmt.Sprintf("Multicast mlids [0x%x-0x%x] of switch %v guid 0x%016x (%s):\n", first, last, to, uint64(node.NodeGUID), text)
		if err := r.Printf("%s%s", heading, multicastColumns(ports, r.o.brief)); err != nil {
			return err
		}
	}
	groups := []table.Table{}
	positions := (ports + inPosition) / inPosition
	n := 0
	for block := first / inBlock; block <= last/inBlock; block++ {
		mft := make([]mad.MulticastForwardingTable, positions)
		for i := range mft {
			modifier := uint32(block-least/inBlock) | uint32(i)<<28
			if err := r.c.Get(ctx, to, modifier, &mft[i]); err != nil {
				return fmt.Errorf("block 0x%x of the multicast forwarding table: %w", modifier, err)
			}
		}
		for mlid := max(block*inBlock, first); mlid < min(block*inBlock+inBlock, last+1); mlid++ {
			masks := make([]uint16, positions)
			some := false
			for i := range mft {
				masks[i] = mft[i].Ports[mlid%inBlock]
				some = some || masks[i] != 0
			}
			if !some && !r.o.all {
				continue
			}
			n++
			if r.JSON {
				members := []int{}
				for p := range ports + 1 {
					if masks[p/inPosition]>>(p%inPosition)&1 != 0 {
						members = append(members, p)
					}
				}
				groups = append(groups, table.Table{{Key: "mlid", Value: mlid}, {Key: "ports", Value: members}})
				continue
			}
			if err := r.Printf("0x%04x      %s\n", mlid, multicastRow(masks, ports, r.o.brief)); err != nil {
				return err
			}
		}
	}
	if r.JSON {
		t.Add("multicast", groups)
		r.list = append(r.list, t)
		return nil
	}
	return r.Printf("%d %smlids dumped \n", n, r.valid())
}

// multicastColumns returns the headings of the columns, one for each port.
func multicastColumns(ports int, brief bool) string {
	if brief {
		return " MLid       Port Mask\n"
	}
	var b strings.Builder
	if ports > 9 {
		b.WriteString("            ")
		for p := range ports + 1 {
			tens := " "
			if p%10 == 0 {
				tens = string(rune('0' + p/10))
			}
			b.WriteString(tens + " ")
		}
		b.WriteByte('\n')
	}
	b.WriteString("     Ports: ")
	for p := range ports + 1 {
		fmt.Fprintf(&b, "%d ", p%10)
	}
	b.WriteString("\n MLid\n")
	return b.String()
}

func multicastRow(masks []uint16, ports int, brief bool) string {
	var b strings.Builder
	if brief {
		for _, m := range masks {
			fmt.Fprintf(&b, "%04x", m)
		}
		return b.String()
	}
	for p := range ports + 1 {
		mark := "  "
		if masks[p/16]>>(p%16)&1 != 0 {
			mark = "x "
		}
		b.WriteString(mark)
	}
	return b.String()
}
