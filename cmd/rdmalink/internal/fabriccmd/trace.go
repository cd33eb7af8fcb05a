package fabriccmd

import (
	"context"
	"errors"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/fabric"
	"github.com/goverbs/goverbs/mad"
)

type traceOptions struct {
	common
	target
	simple bool
}

var trace = define(&program{
	name: "trace", args: "[OPTIONS] FROM TO",
	summary: "print the nodes that packets from one port to another pass",
	text: `
It follows the forwarding tables of the switches, as packets do.
`,
}, 2, append(commonRows[traceOptions](),
	guidRow[traceOptions](),
	smRow[traceOptions](),
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

// kind returns the type of a node as ibtracert prints it.
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
