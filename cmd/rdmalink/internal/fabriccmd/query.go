package fabriccmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
)

type queryOptions struct {
	common
	target
	combined, extended bool
}

var query = define(&program{
	name: "query", args: "[OPTIONS] OPERATION ADDRESS [PORT]",
	summary: "print an attribute of subnet management of a node",
	text: `
Operations, and their short names: NodeInfo (NI), NodeDesc (ND), PortInfo (PI),
PortInfoExtended (PIE), SwitchInfo (SI), PKeyTable (PKeys), SL2VLTable (SL2VL),
VLArbitration (VLArb), GUIDInfo (GI), MlnxExtPortInfo (MEPI). With -c the address has
two words: a LID, and a directed route from there.
`,
}, 4, append(append(commonRows[queryOptions](), targetRows[queryOptions]()...),
	smRow[queryOptions](),
	cli.NewRow('c', "combined", "", "the address is a LID and a directed route from there", cli.Flag(func(o *queryOptions) *bool { return &o.combined })),
	cli.NewRow('x', "extended", "", "ask for extended speeds in PortInfo", cli.Flag(func(o *queryOptions) *bool { return &o.extended })),
	cli.NewRow('K', "show_keys", "", "print M_Keys", cli.Flag(func(o *queryOptions) *bool { return &o.showKeys })),
	namesRow[queryOptions](),
), showQuery)

// operation is an attribute that query can print.
type operation struct {
	names []string
	show  func(q *querying, ctx context.Context) error
}

var operations = []operation{
	{[]string{"NodeInfo", "NI"}, func(q *querying, ctx context.Context) error {
		return q.attribute(ctx, "# Node info: %[1]v\n", 0, new(mad.NodeInfo))
	}},
	{[]string{"NodeDesc", "ND"}, (*querying).description},
	{[]string{"PortInfo", "PI"}, func(q *querying, ctx context.Context) error {
		modifier := uint32(q.port)
		if q.o.extended {
			modifier |= mad.ExtendedSpeeds
		}
		return q.attribute(ctx, "# Port info: %v port %d\n", modifier, new(mad.PortInfo))
	}},
	{[]string{"PortInfoExtended", "PIE"}, func(q *querying, ctx context.Context) error {
		return q.attribute(ctx, "# Port info Extended: %v port %d\n", uint32(q.port), new(mad.PortInfoExtended))
	}},
	{[]string{"SwitchInfo", "SI"}, func(q *querying, ctx context.Context) error {
		return q.attribute(ctx, "# Switch info: %[1]v\n", 0, new(mad.SwitchInfo))
	}},
	{[]string{"PKeyTable", "PKeys"}, (*querying).pkeys},
	{[]string{"SL2VLTable", "SL2VL"}, (*querying).sl2vl},
	{[]string{"VLArbitration", "VLArb"}, (*querying).vlArbitration},
	{[]string{"GUIDInfo", "GI"}, (*querying).guids},
	{[]string{"MlnxExtPortInfo", "MEPI"}, func(q *querying, ctx context.Context) error {
		return q.attribute(ctx, "# MLNX ext Port info: %v port %d\n", uint32(q.port), new(mad.MlnxExtPortInfo))
	}},
}

func findOperation(word string) (operation, error) {
	var all []string
	for _, op := range operations {
		for _, n := range op.names {
			if strings.EqualFold(n, word) {
				return op, nil
			}
		}
		all = append(all, op.names[0])
	}
	return operation{}, cli.Expected(word, all...)
}

// querying is the state of the command.
type querying struct {
	*session
	o     *queryOptions
	c     *fabric.Client
	to    mad.Route
	port  uint8
	names fabric.Names
}

func showQuery(ctx context.Context, s *session, o *queryOptions, words []string) error {
	least := 2
	if o.combined {
		least = 3
	}
	if len(words) < least {
		return cli.Expected("", "OPERATION ADDRESS")
	}
	op, err := findOperation(words[0])
	if err != nil {
		return err
	}
	q := &querying{session: s, o: o}
	if len(words) > least {
		if q.port, err = portWord(words[least]); err != nil {
			return err
		}
	}
	if q.names, err = s.nodeNames(); err != nil {
		return err
	}
	if q.c, err = s.open(); err != nil {
		return err
	}
	if q.to, err = s.route(ctx, q.c, o.target, words[1]); err != nil {
		return err
	}
	if o.combined {
		beyond, err := mad.ParseRoute(words[2])
		if err != nil {
			return cli.UsageError{Text: err.Error()}
		}
		q.to.Hops = beyond.Hops
	}
	return op.show(q, ctx)
}

// attribute prints an attribute below a title, or as JSON.
func (q *querying) attribute(ctx context.Context, title string, modifier uint32, a mad.Attribute) error {
	if err := q.c.Get(ctx, q.to, modifier, a); err != nil {
		return err
	}
	o := &mad.DumpOptions{ShowKeys: q.showKeys}
	if q.JSON {
		return q.WriteJSON(rawJSON(mad.AppendJSON(nil, a, o)))
	}
	return q.Printf("%s%s", fmt.Sprintf(title, q.to, q.port), mad.Dump(a, o))
}

// rawJSON is encoded JSON.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

func (q *querying) description(ctx context.Context) error {
	var info mad.NodeInfo
	var d mad.NodeDescription
	if err := q.c.Get(ctx, q.to, 0, &info); err != nil {
		return err
	}
	if err := q.c.Get(ctx, q.to, 0, &d); err != nil {
		return err
	}
	text := name(q.names, info.NodeGUID, d.Text)
	if q.JSON {
		return q.WriteJSON(map[string]string{"NodeDescription": text})
	}
	return q.Printf("Node Description:%s%s\n", strings.Repeat(".", max(1, 32-len(text))), text)
}

func (q *querying) pkeys(ctx context.Context) error {
	var info mad.NodeInfo
	if err := q.c.Get(ctx, q.to, 0, &info); err != nil {
		return err
	}
	if q.port > info.NumPorts {
		return fmt.Errorf("the node has ports up to %d, not %d", info.NumPorts, q.port)
	}
	entries := int(info.PartitionCap)
	if info.Type == mad.NodeSwitch && q.port != 0 {
		var sw mad.SwitchInfo
		if err := q.c.Get(ctx, q.to, 0, &sw); err != nil {
			return err
		}
		entries = int(sw.PartitionEnforceCap)
	}
	all := []string{}
	for block := 0; block*32 < entries; block++ {
		var t mad.PKeyTable
		if err := q.c.Get(ctx, q.to, uint32(q.port)<<16|uint32(block), &t); err != nil {
			return err
		}
		for _, k := range t.PKeys {
			all = append(all, fmt.Sprintf("0x%04x", k))
		}
	}
	return q.cells(all, entries, 8, "pkeys")
}

// cells prints a table of entries with several entries per row.
func (q *querying) cells(all []string, capacity, row int, what string) error {
	if q.JSON {
		return q.WriteJSON(all[:min(capacity, len(all))])
	}
	for i := 0; i < (capacity+row-1)/row*row && i+row <= len(all); i += row {
		if err := q.Printf("%4d: %s\n", i, strings.Join(all[i:i+row], " ")); err != nil {
			return err
		}
	}
	return q.Printf("%d %s capacity for this port\n", capacity, what)
}

func (q *querying) guids(ctx context.Context) error {
	var info mad.PortInfo
	if err := q.c.Get(ctx, q.to, 0, &info); err != nil {
		return err
	}
	all := []string{}
	for block := 0; block*8 < int(info.GUIDCap); block++ {
		var t mad.GUIDInfo
		if err := q.c.Get(ctx, q.to, uint32(block), &t); err != nil {
			return err
		}
		for _, g := range t.GUIDs {
			all = append(all, guid(g))
		}
	}
	return q.cells(all, int(info.GUIDCap), 2, "guids")
}

func (q *querying) sl2vl(ctx context.Context) error {
	var info mad.NodeInfo
	if err := q.c.Get(ctx, q.to, 0, &info); err != nil {
		return err
	}
	if q.port > info.NumPorts {
		return fmt.Errorf("the node has ports up to %d, not %d", info.NumPorts, q.port)
	}
	inputs, output := 1, uint8(0)
	if info.Type == mad.NodeSwitch {
		inputs, output = int(info.NumPorts)+1, q.port
	}
	type row struct {
		In  int       `json:"in"`
		Out int       `json:"out"`
		VL  [16]uint8 `json:"vl"`
	}
	rows := []row{}
	if !q.JSON {
		if err := q.Printf("# SL2VL table: %v\n#                 SL: | 0| 1| 2| 3| 4| 5| 6| 7| 8| 9|10|11|12|13|14|15|\n", q.to); err != nil {
			return err
		}
	}
	for in := range inputs {
		var t mad.SL2VLTable
		if err := q.c.Get(ctx, q.to, uint32(in)<<8|uint32(output), &t); err != nil {
			return err
		}
		if q.JSON {
			rows = append(rows, row{in, int(output), t.VL})
			continue
		}
		line := fmt.Sprintf("ports: in %2d, out %2d: |", in, output)
		for _, vl := range t.VL {
			line += fmt.Sprintf("%2d|", vl)
		}
		if err := q.Printf("%s\n", line); err != nil {
			return err
		}
	}
	if q.JSON {
		return q.WriteJSON(rows)
	}
	return nil
}

func (q *querying) vlArbitration(ctx context.Context) error {
	if q.port == 0 {
		var info mad.NodeInfo
		if err := q.c.Get(ctx, q.to, 0, &info); err != nil {
			return err
		}
		if info.Type == mad.NodeSwitch {
			var sw mad.SwitchInfo
			if err := q.c.Get(ctx, q.to, 0, &sw); err != nil {
				return err
			}
			if !sw.EnhancedPort0 {
				if q.JSON {
					return q.WriteJSON(map[string]any{})
				}
				return q.Printf("# No VLArbitration tables (BSP0): %v port 0\n", q.to)
			}
		}
	}
	var info mad.PortInfo
	if err := q.c.Get(ctx, q.to, uint32(q.port), &info); err != nil {
		return err
	}
	if !q.JSON {
		if err := q.Printf("# VLArbitration tables: %v port %d LowCap %d HighCap %d\n", q.to, q.port, info.VLArbLowCap, info.VLArbHighCap); err != nil {
			return err
		}
	}
	tables := map[string][]mad.VLArbEntry{}
	for _, t := range []struct {
		name     string
		block    uint32
		capacity int
	}{{"Low", 1, int(info.VLArbLowCap)}, {"High", 3, int(info.VLArbHighCap)}} {
		if t.capacity > 0 && !q.JSON {
			if err := q.Printf("# %s priority VL Arbitration Table:\n", t.name); err != nil {
				return err
			}
		}
		for i := 0; i < min(t.capacity, 64); i += 32 {
			var table mad.VLArbTable
			if err := q.c.Get(ctx, q.to, (t.block+uint32(i/32))<<16|uint32(q.port), &table); err != nil {
				return err
			}
			entries := table.Entries[:min(32, t.capacity-i)]
			if q.JSON {
				tables[strings.ToLower(t.name)] = append(tables[strings.ToLower(t.name)], entries...)
				continue
			}
			vls, weights := "VL    : |", "WEIGHT: |"
			for _, e := range entries {
				vls += fmt.Sprintf("0x%-2x|", e.VL)
				weights += fmt.Sprintf("0x%-2x|", e.Weight)
			}
			if err := q.Printf("%s\n%s\n", vls, weights); err != nil {
				return err
			}
		}
	}
	if q.JSON {
		return q.WriteJSON(tables)
	}
	return nil
}
