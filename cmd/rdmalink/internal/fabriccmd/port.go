package fabriccmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

type portOptions struct {
	common
	target
	yes bool
}

var port = define(&program{
	name: "port", args: "[OPTIONS] ADDRESS PORT [OPERATION…]",
	summary: "print the state of a port's link, or change it",
	text: `
Operations: one of query, enable, disable, on, off, reset, down, arm, active; and any
of speed N, espeed N, width N, vls N, mtu N, lid N, smlid N, lmc N, mkey N,
mkeylease N, mkeyprot N, fdr10 N, with the numbers of PortInfo. On a terminal it asks
for confirmation before a change; otherwise a change requires --yes. It refuses to
take down the link through which the request reaches the node.
`,
}, math.MaxInt, append(append(commonRows[portOptions](), targetRows[portOptions]()...),
	smRow[portOptions](),
	cli.NewRow('K', "show_keys", "", "print M_Keys", cli.Flag(func(o *portOptions) *bool { return &o.showKeys })),
	cli.NewRow(0, "yes", "", "change the port without asking", cli.Flag(func(o *portOptions) *bool { return &o.yes })),
), showPort)

// portOperation is a change of a port.
type portOperation struct {
	name      string
	cuts      bool   // whether it takes the link down
	most      uint64 // maximum of its number; 0 if it has no number, and only one such operation is possible
	least     uint64
	all       uint64 // another valid number, or 0
	change    func(p *mad.PortInfo, n uint64)
	extension bool // whether it changes MlnxExtPortInfo
}

var portOperations = []portOperation{
	{name: "query"},
	{name: "enable", cuts: true, change: func(p *mad.PortInfo, _ uint64) { p.PhysLinkState = verbs.PhysPolling }},
	{name: "on", cuts: true, change: func(p *mad.PortInfo, _ uint64) { p.PhysLinkState = verbs.PhysPolling }},
	{name: "reset", cuts: true, change: func(p *mad.PortInfo, _ uint64) { p.PhysLinkState = verbs.PhysPolling }},
	{name: "disable", cuts: true, change: func(p *mad.PortInfo, _ uint64) { p.PhysLinkState = verbs.PhysDisabled }},
	{name: "off", cuts: true, change: func(p *mad.PortInfo, _ uint64) { p.PhysLinkState = verbs.PhysDisabled }},
	{name: "down", cuts: true, change: func(p *mad.PortInfo, _ uint64) { p.LinkState = verbs.PortDown }},
	{name: "arm", change: func(p *mad.PortInfo, _ uint64) { p.LinkState = verbs.PortArmed }},
	{name: "active", change: func(p *mad.PortInfo, _ uint64) { p.LinkState = verbs.PortActive }},
	{name: "speed", cuts: true, most: 15, change: func(p *mad.PortInfo, n uint64) { p.LinkSpeedEnabled = uint8(n) }},
	{name: "espeed", cuts: true, most: 63, change: func(p *mad.PortInfo, n uint64) {
		p.LinkSpeedExtEnabled, p.LinkSpeedExtEnabled2 = uint8(n&31), uint8(n>>5)
	}},
	{name: "fdr10", cuts: true, most: 1, extension: true},
	{name: "width", cuts: true, most: 31, all: 255, change: func(p *mad.PortInfo, n uint64) { p.LinkWidthEnabled = mad.LinkWidth(n) }},
	{name: "vls", most: 5, least: 1, change: func(p *mad.PortInfo, n uint64) { p.OperVLs = uint8(n) }},
	{name: "mtu", most: 5, least: 1, change: func(p *mad.PortInfo, n uint64) { p.NeighborMTU = verbs.MTU(n) }},
	{name: "lid", most: 0xbfff, least: 1, change: func(p *mad.PortInfo, n uint64) { p.LID = uint16(n) }},
	{name: "smlid", most: 0xbfff, least: 1, change: func(p *mad.PortInfo, n uint64) { p.SMLID = uint16(n) }},
	{name: "lmc", most: 7, change: func(p *mad.PortInfo, n uint64) { p.LMC = uint8(n) }},
	{name: "mkey", most: math.MaxUint64, change: func(p *mad.PortInfo, n uint64) { p.MKey = n }},
	{name: "mkeylease", most: math.MaxUint16, change: func(p *mad.PortInfo, n uint64) { p.MKeyLeasePeriod = uint16(n) }},
	{name: "mkeyprot", most: 3, change: func(p *mad.PortInfo, n uint64) { p.ProtectBits = uint8(n) }},
}

// portChange is an operation with its number.
type portChange struct {
	*portOperation
	n uint64
}

// portChanges parses the operations of the command line. It leaves out query.
func portChanges(words []string) ([]portChange, error) {
	var all []portChange
	state := ""
	for i := 0; i < len(words); i++ {
		var op *portOperation
		var names []string
		for k := range portOperations {
			if names = append(names, portOperations[k].name); portOperations[k].name == words[i] {
				op = &portOperations[k]
			}
		}
		if op == nil {
			return nil, cli.Expected(words[i], names...)
		}
		if op.most == 0 {
			if state != "" {
				return nil, cli.UsageError{Text: fmt.Sprintf("%s and %s cannot be combined", state, op.name)}
			}
			if state = op.name; op.change != nil {
				all = append(all, portChange{op, 0})
			}
			continue
		}
		if i++; i == len(words) {
			return nil, cli.Expected("", op.name+" NUMBER")
		}
		n, err := strconv.ParseUint(words[i], 0, 64)
		if err != nil || (n < op.least || n > op.most) && (op.all == 0 || n != op.all) {
			return nil, cli.UsageError{Text: fmt.Sprintf("%s %q: expected a number from %d to %d", op.name, words[i], op.least, op.most)}
		}
		all = append(all, portChange{op, n})
	}
	return all, nil
}

// portState is the state of a port.
type portState struct {
	route    mad.Route
	number   uint8
	node     mad.NodeInfo
	info     mad.PortInfo
	own      mad.PortInfo // info of port 0 of a switch, otherwise equal to info
	extended bool         // whether it has extended speeds
	faster   bool         // whether it has extended speeds 2
}

func showPort(ctx context.Context, s *session, o *portOptions, words []string) error {
	if len(words) < 2 {
		return cli.Expected("", "ADDRESS PORT")
	}
	number, err := portWord(words[1])
	if err != nil {
		return err
	}
	changes, err := portChanges(words[2:])
	if err != nil {
		return err
	}
	c, err := s.open()
	if err != nil {
		return err
	}
	to, err := s.route(ctx, c, o.target, words[0])
	if err != nil {
		return err
	}
	p, err := readPort(ctx, c, to, number)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return s.queryPort(ctx, c, p)
	}
	changes = append(changes, s.missingLIDs(p, changes)...)
	if err := s.allowed(p, changes, o.yes); err != nil {
		return err
	}
	return s.changePort(ctx, c, p, changes)
}

// anyLID is a LID for ports that have none. C's ibportstate sets the same.
const anyLID = 0x1234

// missingLIDs returns the changes that set LIDs of a port that has none, and that the command line
// doesn't set: nodes refuse any change of such a port. The LIDs of a switch's other ports mean nothing.
func (s *session) missingLIDs(p *portState, changes []portChange) []portChange {
	var more []portChange
	if p.node.Type == mad.NodeSwitch && p.number != 0 {
		return nil
	}
	for i := range portOperations {
		op := &portOperations[i]
		lid := map[string]uint16{"lid": p.info.LID, "smlid": p.info.SMLID}
		have, ok := lid[op.name]
		if !ok || have != 0 && have != mad.PermissiveLID {
			continue
		}
		if slices.ContainsFunc(changes, func(c portChange) bool { return c.name == op.name }) {
			continue
		}
		s.Note("port %d has no %s, without which nodes refuse a change: 0x%x will be set too", p.number, op.name, anyLID)
		more = append(more, portChange{op, anyLID})
	}
	return more
}

func readPort(ctx context.Context, c *fabric.Client, to mad.Route, number uint8) (*portState, error) {
	const extendedSpeeds, capMask2, extendedSpeeds2 = 1 << 14, 1 << 15, 1 << 11
	p := &portState{route: to, number: number}
	if err := c.Get(ctx, to, 0, &p.node); err != nil {
		return nil, err
	}
	if number == 0 && p.node.Type != mad.NodeSwitch {
		// On an adapter, port 0 means the port that received the request.
		number = p.node.LocalPort
		p.number = number
	}
	if number > p.node.NumPorts {
		return nil, fmt.Errorf("%v has ports up to %d, not %d", to, p.node.NumPorts, number)
	}
	if err := c.Get(ctx, to, uint32(number), &p.info); err != nil {
		return nil, err
	}
	p.own = p.info
	if p.node.Type == mad.NodeSwitch && number != 0 {
		if err := c.Get(ctx, to, 0, &p.own); err != nil {
			return nil, err
		}
	}
	p.extended = p.own.CapMask&extendedSpeeds != 0
	p.faster = p.own.CapMask&capMask2 != 0 && p.own.CapMask2&extendedSpeeds2 != 0
	return p, nil
}

func (p *portState) kind() string {
	if p.node.Type == mad.NodeSwitch {
		return "Switch"
	}
	return "CA/RT"
}

// fields returns the names of the fields of PortInfo that the command prints.
func (p *portState) fields() []string {
	names := []string{"LinkState", "PhysLinkState", "Lid", "SMLid", "LMC", "LinkWidthSupported", "LinkWidthEnabled", "LinkWidthActive", "LinkSpeedSupported", "LinkSpeedEnabled", "LinkSpeedActive"}
	if p.extended {
		names = append(names, "LinkSpeedExtSupported", "LinkSpeedExtEnabled", "LinkSpeedExtActive")
	}
	if p.faster {
		names = append(names, "LinkSpeedExtSupported2", "LinkSpeedExtEnabled2", "LinkSpeedExtActive2")
	}
	if p.node.Type != mad.NodeSwitch || p.number == 0 {
		names = append(names, "Mkey", "MkeyLeasePeriod", "ProtectBits")
	}
	return names
}

func (p *portState) text(showKeys bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Port info: %v port %d\n", p.route, p.number)
	for _, name := range p.fields() {
		b.WriteString(mad.Dump(&p.info, &mad.DumpOptions{ShowKeys: showKeys, Omit: func(f *mad.Field) bool { return f.Name != name }}))
	}
	return b.String()
}

func (p *portState) table(showKeys bool) table.Table {
	names := make(map[string]bool)
	for _, name := range p.fields() {
		names[name] = true
	}
	return table.Table{
		{Key: "node_guid", Value: guid(p.node.NodeGUID)}, {Key: "address", Value: p.route.String()}, {Key: "port", Value: uint32(p.number)},
		{Key: "info", Value: rawJSON(mad.AppendJSON(nil, &p.info, &mad.DumpOptions{ShowKeys: showKeys, Omit: func(f *mad.Field) bool { return !names[f.Name] }}))},
	}
}

// queryPort prints a port. For an active port of a switch it also prints the peer.
func (s *session) queryPort(ctx context.Context, c *fabric.Client, p *portState) error {
	var peer *portState
	var failed error
	if p.node.Type == mad.NodeSwitch && p.number != 0 && p.info.LinkState == verbs.PortActive {
		peer, failed = readPeer(ctx, c, p)
	}
	if s.JSON {
		t := p.table(s.showKeys)
		if peer != nil {
			t.Add("peer", peer.table(s.showKeys))
		}
		return errors.Join(s.WriteJSON(t), failed)
	}
	if err := s.Printf("%s PortInfo:\n%s", p.kind(), p.text(s.showKeys)); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	if peer == nil {
		return nil
	}
	if err := s.Printf("Peer PortInfo:\n%s", peer.text(s.showKeys)); err != nil {
		return err
	}
	here := p.port()
	here.Remote = peer.port()
	width, speed := couldBe(here)
	for _, text := range []string{width, speed} {
		if text != "" {
			s.Note("the link is slower than its ends support: %s", text)
		}
	}
	return nil
}

// port returns the port as a fabric.Port.
func (p *portState) port() *fabric.Port {
	n := &fabric.Node{Info: p.node}
	n.Ports = []*fabric.Port{{Node: n, Info: &p.own}}
	return &fabric.Port{Node: n, Number: p.number, Info: &p.info}
}

// readPeer reads the port at the other end of the link of a switch's port.
func readPeer(ctx context.Context, c *fabric.Client, p *portState) (*portState, error) {
	to := p.route.Append(p.number)
	if to.LID != 0 {
		attr, err := c.Port().Attr()
		if err != nil {
			return nil, err
		}
		to.DrLID = attr.LID
	}
	var node mad.NodeInfo
	if err := c.Get(ctx, to, 0, &node); err != nil {
		return nil, err
	}
	return readPort(ctx, c, to, node.LocalPort)
}

// allowed returns an error if a change must not be made: the response to the change would be lost, or
// the user didn't confirm the change.
func (s *session) allowed(p *portState, changes []portChange, yes bool) error {
	var names []string
	for _, c := range changes {
		if c.cuts && p.number == p.node.LocalPort {
			return fmt.Errorf("refusing %s: port %d receives the request, so the response would be lost; change it from the other end, or through another port of the node",
				c.name, p.number)
		}
		name := c.name
		if c.most != 0 {
			name += fmt.Sprintf(" %d", c.n)
		}
		names = append(names, name)
	}
	if p.node.Type == mad.NodeSwitch && p.number != 0 {
		for _, c := range changes {
			if strings.HasPrefix(c.name, "mkey") {
				return cli.UsageError{Text: fmt.Sprintf("%s: only port 0 of a switch has an M_Key", c.name)}
			}
		}
	}
	return s.confirm(yes, fmt.Errorf("nothing was changed: %s of port %d needs confirmation; use --yes without a terminal", strings.Join(names, ", "), p.number),
		"%s port %d of node %s, %v?", strings.Join(names, ", "), p.number, guid(p.node.NodeGUID), p.route)
}

// confirm asks the user a question on the terminal. It returns refused if standard input is no terminal,
// or if the answer is not yes. If yes is set, it doesn't ask.
func (s *session) confirm(yes bool, refused error, question string, args ...any) error {
	if yes {
		return nil
	}
	if w, ok := s.stdin.(io.Writer); !ok || !cli.IsTerminal(w) {
		return refused
	}
	s.Ask(question+" [y/N]", args...)
	answer, _ := bufio.NewReader(s.stdin).ReadString('\n') // no input means no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return refused
}

// changePort changes a port and prints it before and after.
func (s *session) changePort(ctx context.Context, c *fabric.Client, p *portState, changes []portChange) error {
	before := *p
	var ext *mad.MlnxExtPortInfo
	if !s.JSON {
		if err := s.Printf("Initial %s PortInfo:\n%s", p.kind(), p.text(s.showKeys)); err != nil {
			return err
		}
	}
	// A node refuses invalid LIDs, even if they don't change and mean nothing.
	for _, lid := range []*uint16{&p.info.LID, &p.info.SMLID} {
		if *lid == 0 || *lid == mad.PermissiveLID {
			*lid = anyLID
		}
	}
	// Zero means no change.
	p.info.LinkState, p.info.PhysLinkState = 0, 0
	p.info.LinkSpeedEnabled, p.info.LinkSpeedExtEnabled, p.info.LinkSpeedExtEnabled2, p.info.LinkWidthEnabled = 0, 0, 0, 0
	for _, change := range changes {
		switch {
		case change.name == "on" && before.info.PhysLinkState != verbs.PhysDisabled:
			if s.JSON {
				return s.writeChange(&before, &before, nil)
			}
			return s.Printf("Port is already in enable state\n")
		case change.extension:
			var err error
			if ext, err = s.setFDR10(ctx, c, p, uint8(change.n)); err != nil {
				return err
			}
		default:
			change.change(&p.info, change.n)
		}
		if (change.name == "disable" || change.name == "off") && !s.JSON {
			if err := s.Printf("Disable may be irreversible\n"); err != nil {
				return err
			}
		}
	}
	modifier := uint32(p.number)
	if p.extended || p.faster {
		modifier |= mad.ExtendedSpeeds
	}
	if err := c.Set(ctx, p.route, modifier, &p.info); err != nil {
		return fmt.Errorf("change of port %d: %w", p.number, err)
	}
	if s.JSON {
		return s.writeChange(&before, p, ext)
	}
	return s.Printf("\nAfter PortInfo set:\n%s", p.text(s.showKeys))
}

// writeChange prints a port before and after a change as JSON.
func (s *session) writeChange(before, after *portState, ext *mad.MlnxExtPortInfo) error {
	t := table.Table{{Key: "before", Value: before.table(s.showKeys)}, {Key: "after", Value: after.table(s.showKeys)}}
	if ext != nil {
		t.Add("mlnx_ext_port_info", rawJSON(mad.AppendJSON(nil, ext, nil)))
	}
	return s.WriteJSON(t)
}

// setFDR10 enables or disables FDR10, which Mellanox devices have, and returns what the node answers.
func (s *session) setFDR10(ctx context.Context, c *fabric.Client, p *portState, on uint8) (*mad.MlnxExtPortInfo, error) {
	ext := new(mad.MlnxExtPortInfo)
	if err := c.Get(ctx, p.route, uint32(p.number), ext); err != nil {
		return nil, fmt.Errorf("fdr10: the device does not support it: %w", err)
	}
	ext.StateChangeEnable, ext.LinkSpeedEnabled = fdr10, on
	if err := c.Set(ctx, p.route, uint32(p.number), ext); err != nil {
		return nil, fmt.Errorf("fdr10: %w", err)
	}
	if s.JSON {
		return ext, nil
	}
	return ext, s.Printf("\nAfter MLNXExtendedPortInfo set:\n# MLNX ext Port info: %v port %d\n%s", p.route, p.number, mad.Dump(ext, nil))
}
