package fabriccmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

type linksOptions struct {
	common
	walk
	down, line, more, switches, adapters bool
	portGUID, direct                     string
	all                                  bool
}

var links = define(&program{
	name: "links", args: "[OPTIONS]",
	summary: "print each link of the fabric, with its width, speed and state",
	text: `
If a link is slower or narrower than both ends support, it adds a note: Could be 4X.
`,
}, 0, append(append(commonRows[linksOptions](), walkRows[linksOptions]()...),
	cli.NewRow('d', "down", "", "print only links that are down", cli.Flag(func(o *linksOptions) *bool { return &o.down })),
	cli.NewRow('l', "line", "", "print each link in one line", cli.Flag(func(o *linksOptions) *bool { return &o.line })),
	cli.NewRow('p', "additional", "", "also print HoqLife and VLStallCount", cli.Flag(func(o *linksOptions) *bool { return &o.more })),
	cli.NewRow(0, "switches-only", "", "print only the links of switches", cli.Flag(func(o *linksOptions) *bool { return &o.switches })),
	cli.NewRow(0, "cas-only", "", "print only the links of channel adapters", cli.Flag(func(o *linksOptions) *bool { return &o.adapters })),
	cli.NewRow('G', "port-guid", "GUID", "begin at the node of the port with this GUID, and print only its links", func(o *linksOptions, v string) error { o.portGUID = v; return nil }),
	cli.NewRow('S', "switch", "GUID", "the same", func(o *linksOptions, v string) error { o.portGUID = v; return nil }),
	cli.NewRow('D', "Direct", "ROUTE", "begin at the end of this directed route, and print only its links", func(o *linksOptions, v string) error { o.direct = v; return nil }),
	cli.NewRow('n', "hops", "N", "with -G or -D: number of hops to discover (default 1)", cli.Number("number of hops", 1, mad.MaxHops, func(o *linksOptions) *int { return &o.hops })),
	cli.NewRow('a', "all", "", "with -G or -D: print the links of all nodes that were found", cli.Flag(func(o *linksOptions) *bool { return &o.all })),
	cacheRow[linksOptions](),
	namesRow[linksOptions](),
), showLinks)

func showLinks(ctx context.Context, s *session, o *linksOptions, _ []string) error {
	names, err := s.nodeNames()
	if err != nil {
		return err
	}
	f, part, err := s.scope(ctx, o.walk, o.direct, o.portGUID)
	if f == nil {
		return err
	}
	if err != nil {
		s.Note("%s; the nodes found until then follow", cli.PlainLine(err))
	}
	only := mad.NodeType(0)
	switch {
	case o.switches:
		only = mad.NodeSwitch
	case o.adapters:
		only = mad.NodeCA
	}
	list := []table.Table{}
	for n := range f.NewestFirst(only) {
		if part && !o.all && n != f.From.Node {
			continue
		}
		header := false
		for _, p := range n.Ports {
			if p == nil || p.Number == 0 || p.Info == nil || o.down && p.Info.LinkState != verbs.PortDown {
				continue
			}
			if s.JSON {
				list = append(list, linkTable(p, names))
				continue
			}
			if !header && !o.line {
				if err := s.Printf("%s\n", linkHeader(n, names)); err != nil {
					return err
				}
			}
			header = true
			if err := s.Printf("%s\n", linkLine(p, names, o.line, o.more)); err != nil {
				return err
			}
		}
	}
	if s.JSON {
		if err := s.WriteJSON(list); err != nil {
			return err
		}
	}
	if code := s.problems(f); code != nil {
		return code
	}
	if err != nil {
		return cli.ExitCode(cli.ExitFailed)
	}
	return nil
}

var nodeTypes = map[mad.NodeType]string{mad.NodeSwitch: "Switch", mad.NodeCA: "CA", mad.NodeRouter: "Router"}

func linkHeader(n *fabric.Node, names fabric.Names) string {
	kind, ok := nodeTypes[n.Info.Type]
	if !ok {
		kind = "??"
	}
	if n.Info.Type != mad.NodeSwitch {
		return fmt.Sprintf("%s: %s:", kind, names.Of(n))
	}
	own := n.Info.PortGUID
	if p := n.Port(0); p != nil {
		own = p.GUID
	}
	return fmt.Sprintf("%s: %s %s:", kind, guid(own), names.Of(n))
}

// linkLine returns a link in the format of iblinkinfo, from the view of one end.
func linkLine(p *fabric.Port, names fabric.Names, line, more bool) string {
	var b strings.Builder
	if line {
		fmt.Fprintf(&b, "%s \"%30s\" ", guid(p.GUID), names.Of(p.Node))
	} else {
		b.WriteString("      ")
	}
	lid := p.LID()
	if p.Node.Info.Type == mad.NodeSwitch {
		lid = p.Node.LID()
	} else if !line {
		b.WriteString(guid(p.GUID) + " ")
	}
	fmt.Fprintf(&b, "%6d %4d[  ] ==%s==>  ", lid, p.Number, linkText(p, more))
	q := p.Remote
	switch {
	case q == nil && p.Info.LinkState == verbs.PortDown:
		b.WriteString("           [  ] \"\" ( )")
	case q == nil:
		b.WriteString("    \"Port not available\"")
	default:
		if line {
			b.WriteString(guid(q.GUID) + " ")
		}
		width, speed := couldBe(p)
		fmt.Fprintf(&b, "%6d %4d[  ] \"%s\" (%s %s)", q.LID(), q.Number, names.Of(q.Node), width, speed)
	}
	return b.String()
}

// linkText returns width, speed and state of a link. If the link is down, only the state is valid.
func linkText(p *fabric.Port, more bool) string {
	state, phys := portText("LinkState", p.Info), portText("PhysLinkState", p.Info)
	if p.Info.LinkState == verbs.PortDown {
		return fmt.Sprintf("(              %6s/%8s)", state, phys)
	}
	text := fmt.Sprintf("(%3s %18s %6s/%8s)", portText("LinkWidthActive", p.Info), speedText(p), state, phys)
	if more {
		text += fmt.Sprintf(" (HOQ:%d VL_Stall:%d)", p.Info.HOQLife, p.Info.VLStallCount)
	}
	return text
}

// fdr10 is the bit of FDR10 in MlnxExtPortInfo.
const fdr10 = 1

func speedText(p *fabric.Port) string {
	if ext := p.ExtSpeed(); ext != 0 {
		return extText(ext)
	}
	if p.Mlnx != nil && p.Mlnx.LinkSpeedActive&fdr10 != 0 {
		return "10.0 Gbps (FDR10)"
	}
	return portText("LinkSpeedActive", p.Info)
}

// extText returns an extended speed in the format of C's programs.
func extText(ext int) string {
	if text, ok := map[int]string{1: "14.0625 Gbps", 2: "25.78125 Gbps", 4: "53.125 Gbps", 8: "106.25 Gbps", 32: "212.5 Gbps"}[ext]; ok {
		return text
	}
	return fmt.Sprintf("undefined (%d)", ext)
}

// portText returns a field of PortInfo in libibmad's words.
func portText(field string, info *mad.PortInfo) string {
	fields := mad.LayoutOf(info).Fields
	for i := range fields {
		if fields[i].Name == field {
			return fields[i].Text(info)
		}
	}
	return ""
}

// couldBe returns the width and the speed that both ends of a link support, if they are better than
// the active ones.
func couldBe(p *fabric.Port) (width, speed string) {
	q := p.Remote
	if q.Info == nil {
		return "", ""
	}
	best := mad.LinkWidth(0)
	for _, w := range []mad.LinkWidth{mad.Width12X, mad.Width8X, mad.Width4X, mad.Width2X, mad.Width1X} {
		if p.Info.LinkWidthSupported&q.Info.LinkWidthSupported&w != 0 {
			best = w
			break
		}
	}
	if best&p.Info.LinkWidthActive == 0 {
		width = "Could be " + portText("LinkWidthActive", &mad.PortInfo{LinkWidthActive: best})
	}
	if ours, theirs := p.ExtSpeedSupported(), q.ExtSpeedSupported(); ours != 0 && theirs != 0 {
		if most := highestBit(ours & theirs); most&p.ExtSpeed() == 0 {
			speed = "Could be " + extText(most)
		}
		return width, speed
	}
	if p.Mlnx != nil && q.Mlnx != nil && p.Mlnx.LinkSpeedSupported&q.Mlnx.LinkSpeedSupported&fdr10 != 0 {
		const qdr = 4
		switch {
		case p.Mlnx.LinkSpeedActive&fdr10 != 0:
		case p.Info.LinkSpeedActive == qdr:
			speed = "Could be FDR10 (Found link at QDR but expected speed is FDR10)"
		default:
			speed = "Could be FDR10"
		}
		return width, speed
	}
	if most := uint8(highestBit(int(p.Info.LinkSpeedSupported & q.Info.LinkSpeedSupported))); most&p.Info.LinkSpeedActive == 0 {
		speed = "Could be " + portText("LinkSpeedActive", &mad.PortInfo{LinkSpeedActive: most})
	}
	return width, speed
}

func highestBit(v int) int {
	bit := 0
	for b := 1; b <= v; b <<= 1 {
		if v&b != 0 {
			bit = b
		}
	}
	return bit
}

func linkTable(p *fabric.Port, names fabric.Names) table.Table {
	t := table.Table{{Key: "node", Value: names.Of(p.Node)}, {Key: "node_guid", Value: guid(p.Node.Info.NodeGUID)}, {Key: "type", Value: nodeTypes[p.Node.Info.Type]}}
	t.Add("lid", uint32(p.LID()))
	t.Add("port", uint32(p.Number))
	t.Add("state", portText("LinkState", p.Info))
	t.Add("physical_state", portText("PhysLinkState", p.Info))
	if p.Info.LinkState != verbs.PortDown {
		t.Add("width", portText("LinkWidthActive", p.Info))
		t.Add("speed", speedText(p))
	}
	if q := p.Remote; q != nil {
		t.Add("remote_node", names.Of(q.Node))
		t.Add("remote_node_guid", guid(q.Node.Info.NodeGUID))
		t.Add("remote_lid", uint32(q.LID()))
		t.Add("remote_port", uint32(q.Number))
		width, speed := couldBe(p)
		t.AddText("width_could_be", strings.TrimPrefix(width, "Could be "))
		t.AddText("speed_could_be", strings.TrimPrefix(speed, "Could be "))
	}
	return t
}
