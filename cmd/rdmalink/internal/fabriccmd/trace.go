package fabriccmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
)

type traceOptions struct {
	common
	target
	simple bool
	mlid   int // of a multicast group; 0 for unicast
}

var trace = define(&program{
	name: "trace", args: "[OPTIONS] FROM TO",
	summary: "print the nodes on the path from one port to another",
	text: `
It follows the forwarding tables of the switches, as packets do. With -m it follows
the multicast forwarding tables of a group, for which it discovers the fabric.
`,
}, 2, append(commonRows[traceOptions](),
	lidRow[traceOptions](),
	guidRow[traceOptions](),
	smRow[traceOptions](),
	cli.NewRow('m', "mlid", "MLID", "follow the packets of this multicast group", cli.Number("multicast LID", 0xc000, 0xfffe, func(o *traceOptions) *int { return &o.mlid })),
	cli.NewRow('n', "no_info", "", "print GUIDs and ports only", cli.Flag(func(o *traceOptions) *bool { return &o.simple })),
	namesRow[traceOptions](),
), showTrace)

func showTrace(ctx context.Context, s *session, o *traceOptions, words []string) error {
	if len(words) < 2 {
		return cli.Expected("", "FROM TO")
	}
	names, err := s.nodeNames()
	if err != nil {
		return err
	}
	c, err := s.open()
	if err != nil {
		return err
	}
	from, err := s.lid(ctx, c, o.target, words[0])
	if err != nil {
		return err
	}
	to, err := s.lid(ctx, c, o.target, words[1])
	if err != nil {
		return err
	}
	if o.mlid != 0 {
		return s.traceMulticast(ctx, c, o, from, to, names)
	}
	hops, err := c.Trace(ctx, from, to)
	var ended *fabric.TraceError
	if err != nil && !errors.As(err, &ended) && len(hops) == 0 {
		return err
	}
	if s.JSON {
		list := make([]table.Table, len(hops))
		for i, h := range hops {
			list[i] = hopTable(h, names)
		}
		if failed := s.WriteJSON(list); failed != nil {
			return failed
		}
		return err
	}
	for i, h := range hops {
		if i == 0 {
			s.printEnd("From", h, names, o.simple)
			continue
		}
		if o.simple {
			s.Printf("[%d] -> {%s}[%d]\n", hops[i-1].Out, guid(h.Node.PortGUID), h.In)
			continue
		}
		s.Printf("[%d] -> %s port {%s}[%d] lid %d-%d \"%s\"\n", hops[i-1].Out, kind(h.Node.Type), guid(h.Node.PortGUID), h.In, h.LID, lastLID(h), name(names, h.Node.NodeGUID, h.Description))
	}
	if err == nil {
		return s.printEnd("To", hops[len(hops)-1], names, o.simple)
	}
	return err
}

// kind returns the type of a node in the words of ibtracert.
func kind(t mad.NodeType) string {
	if text, ok := map[mad.NodeType]string{mad.NodeCA: "ca", mad.NodeSwitch: "switch", mad.NodeRouter: "router"}[t]; ok {
		return text
	}
	return "???"
}

func lastLID(h fabric.Hop) int { return int(h.LID) + 1<<h.LMC - 1 }

func (s *session) printEnd(word string, h fabric.Hop, names fabric.Names, simple bool) error {
	port := h.Node.LocalPort
	if h.Node.Type == mad.NodeSwitch {
		port = 0
	}
	if simple {
		return s.Printf("%s {%s}[%d]\n", word, guid(h.Node.NodeGUID), port)
	}
	return s.Printf("%s %s {%s} portnum %d lid %d-%d \"%s\"\n", word, kind(h.Node.Type), guid(h.Node.NodeGUID), port, h.LID, lastLID(h), name(names, h.Node.NodeGUID, h.Description))
}

func hopTable(h fabric.Hop, names fabric.Names) table.Table {
	return table.Table{
		{Key: "node", Value: name(names, h.Node.NodeGUID, h.Description)}, {Key: "type", Value: kind(h.Node.Type)}, {Key: "node_guid", Value: guid(h.Node.NodeGUID)},
		{Key: "lid", Value: uint32(h.LID)}, {Key: "in_port", Value: uint32(h.In)}, {Key: "out_port", Value: uint32(h.Out)},
	}
}

// visit is a node that the packets of a multicast group reach.
type visit struct {
	node    *fabric.Node
	in, out uint8 // input port of node, and output port of the node before
	before  *visit
}

// traceMulticast prints the route of a multicast group's packets from one port to another.
func (s *session) traceMulticast(ctx context.Context, c *fabric.Client, o *traceOptions, from, to uint16, names fabric.Names) error {
	f, err := s.discover(ctx, walk{})
	if err != nil {
		return err
	}
	source, target := f.PortByLID(from), f.PortByLID(to)
	if source == nil || target == nil {
		return fmt.Errorf("the discovery found no port with LID %d", map[bool]uint16{true: from, false: to}[source == nil])
	}
	end, err := s.spread(ctx, c, uint16(o.mlid), source, target)
	if err != nil {
		return err
	}
	var way []*visit
	for v := end; v != nil; v = v.before {
		way = append([]*visit{v}, way...)
	}
	if s.JSON {
		list := []table.Table{}
		for i, v := range way {
			t := table.Table{{Key: "node", Value: names.Of(v.node)}, {Key: "type", Value: kind(v.node.Info.Type)}, {Key: "node_guid", Value: guid(v.node.Info.NodeGUID)}, {Key: "in_port", Value: uint32(v.in)}}
			if i+1 < len(way) {
				t.Add("out_port", uint32(way[i+1].out))
			}
			list = append(list, t)
		}
		return s.WriteJSON(list)
	}
	last := func(word string, p *fabric.Port) error {
		n := p.Node
		return s.Printf("%s %s 0x%x port %d lid %d-%d \"%s\"\n", word, kind(n.Info.Type), uint64(n.Info.NodeGUID), p.Number, p.LID(), int(p.LID())+1<<p.LMC()-1, names.Of(n))
	}
	if err := last("From", source); err != nil {
		return err
	}
	for _, v := range way[1:] {
		line := fmt.Sprintf("[%d] -> %s 0x%x[%d] lid %d \"%s\"\n", v.out, kind(v.node.Info.Type), uint64(v.node.Info.NodeGUID), v.in, entered(v).LID(), names.Of(v.node))
		if o.simple {
			line = fmt.Sprintf("[%d] -> %s {%s}[%d]\n", v.out, kind(v.node.Info.Type), guid(v.node.Info.NodeGUID), v.in)
		}
		if err := s.Printf("%s", line); err != nil {
			return err
		}
	}
	return last("To", target)
}

// entered returns the input port of a visit.
func entered(v *visit) *fabric.Port { return v.node.Port(int(v.in)) }

// spread follows the packets of a multicast group from one port until they reach another. It returns
// the last visit.
func (s *session) spread(ctx context.Context, c *fabric.Client, mlid uint16, source, target *fabric.Port) (*visit, error) {
	reached := func(v *visit) bool {
		return v.node == target.Node && (v.node.Info.Type == mad.NodeSwitch || v.in == target.Number)
	}
	seen := map[*fabric.Node]bool{source.Node: true}
	queue := []*visit{{node: source.Node, in: source.Number}}
	for ; len(queue) > 0; queue = queue[1:] {
		v := queue[0]
		outs := []uint8{source.Number}
		if v.node.Info.Type == mad.NodeSwitch {
			var err error
			if outs, err = groupPorts(ctx, c, v.node, mlid); err != nil {
				return nil, err
			}
		} else if v.before != nil {
			continue
		}
		for _, out := range outs {
			p := v.node.Port(int(out))
			if out == 0 && v.node == target.Node {
				return v, nil // the switch itself is a member
			}
			if p == nil || p.Remote == nil || v.before != nil && out == v.in {
				continue
			}
			next := &visit{node: p.Remote.Node, in: p.Remote.Number, out: out, before: v}
			switch {
			case reached(next) && next.node.Info.Type != mad.NodeSwitch:
				return next, nil
			case !seen[next.node]:
				seen[next.node] = true
				queue = append(queue, next)
			case next.node.Info.Type == mad.NodeSwitch:
				s.Note("packets of MLID 0x%x reach switch %s twice: the forwarding tables have a loop", mlid, guid(next.node.Info.NodeGUID))
			}
		}
	}
	return nil, fmt.Errorf("packets of MLID 0x%x from LID %d do not reach LID %d: see the members with rdmalink fabric sa -m 0x%x, and the tables with fabric route -M", mlid, source.LID(), target.LID(), mlid)
}

// groupPorts returns the ports through which a switch forwards a multicast group.
func groupPorts(ctx context.Context, c *fabric.Client, n *fabric.Node, mlid uint16) ([]uint8, error) {
	index := mlid - mad.MinMulticast
	if n.Switch == nil || index >= n.Switch.MulticastFDBCap {
		return nil, nil
	}
	var ports []uint8
	for position := 0; position <= int(n.Info.NumPorts)/16; position++ {
		var t mad.MulticastForwardingTable
		if err := c.Get(ctx, n.Route, uint32(index/32)|uint32(position)<<28, &t); err != nil {
			return nil, err
		}
		for bit := range 16 {
			if t.Ports[index%32]>>bit&1 != 0 {
				ports = append(ports, uint8(position*16+bit))
			}
		}
	}
	return ports, nil
}
