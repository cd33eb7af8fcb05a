package fabriccmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

type errorsOptions struct {
	common
	walk
	suppressed                         []string
	switchRelay, data, details, report bool
	dataOnly, skipSL                   bool
	switches, adapters, routers        bool
	clearErrors, clearData             bool
	portGUID, direct, thresholds       string
}

var errorsOf = define(&program{
	name: "errors", args: "[OPTIONS]",
	summary: "print the ports of the fabric whose error counters exceed thresholds",
	text: `
Without a thresholds file it reports every error. Lines of the file are NAME=VALUE,
such as SymbolErrorCounter=10. The exit code is also 1 if a port has too many errors.
`,
}, 0, append(append(commonRows[errorsOptions](), walkRows[errorsOptions]()...),
	cli.NewRow('s', "suppress", "NAMES", "ignore these counters, separated by commas", func(o *errorsOptions, v string) error {
		for _, name := range strings.Split(v, ",") {
			if _, err := findErrorCounter(name); err != nil {
				return err
			}
			o.suppressed = append(o.suppressed, name)
		}
		return nil
	}),
	cli.NewRow('c', "suppress-common", "", "ignore PortRcvSwitchRelayErrors, which multicast causes", cli.Flag(func(o *errorsOptions) *bool { return &o.switchRelay })),
	cli.NewRow('G', "port-guid", "GUID", "check only the node of the port with this GUID", func(o *errorsOptions, v string) error { o.portGUID = v; return nil }),
	cli.NewRow('S', "S", "GUID", "the same", func(o *errorsOptions, v string) error { o.portGUID = v; return nil }),
	cli.NewRow('D', "Direct", "ROUTE", "check only the node at the end of this directed route", func(o *errorsOptions, v string) error { o.direct = v; return nil }),
	cli.NewRow(0, "skip-sl", "", "don't ask subnet administration for the service levels of paths", cli.Flag(func(o *errorsOptions) *bool { return &o.skipSL })),
	cli.NewRow('r', "report-port", "", "print the link of each bad port", cli.Flag(func(o *errorsOptions) *bool { return &o.report })),
	cli.NewRow(0, "threshold-file", "FILE", "thresholds (default "+defaultThresholds+")", func(o *errorsOptions, v string) error { o.thresholds = v; return nil }),
	cli.NewRow(0, "data", "", "also print the data counters of bad ports", cli.Flag(func(o *errorsOptions) *bool { return &o.data })),
	cli.NewRow(0, "counters", "", "print the data counters of all ports, and no errors", cli.Flag(func(o *errorsOptions) *bool { return &o.dataOnly })),
	cli.NewRow(0, "details", "", "print the kinds of received errors and discarded packets", cli.Flag(func(o *errorsOptions) *bool { return &o.details })),
	cli.NewRow(0, "switch", "", "check switches", cli.Flag(func(o *errorsOptions) *bool { return &o.switches })),
	cli.NewRow(0, "ca", "", "check channel adapters", cli.Flag(func(o *errorsOptions) *bool { return &o.adapters })),
	cli.NewRow(0, "router", "", "check routers", cli.Flag(func(o *errorsOptions) *bool { return &o.routers })),
	cli.NewRow('k', "clear-errors", "", "reset the error counters after reading them", cli.Flag(func(o *errorsOptions) *bool { return &o.clearErrors })),
	cli.NewRow('K', "clear-counts", "", "reset the data counters after reading them", cli.Flag(func(o *errorsOptions) *bool { return &o.clearData })),
	namesRow[errorsOptions](),
), showErrors)

// defaultThresholds is the default thresholds file of C's ibqueryerrors.
const defaultThresholds = "/etc/infiniband-diags/error_thresholds"

func findErrorCounter(name string) (int, error) {
	var all []string
	for i, c := range errorCounters {
		if c.name == name {
			return i, nil
		}
		all = append(all, c.name)
	}
	return 0, cli.Expected(name, all...)
}

// thresholds holds the maximum values of error counters that are not reported.
type thresholds struct {
	most map[string]uint64
	text string
}

// readThresholds reads lines of the form NAME=VALUE. It skips empty lines and lines that begin with #.
func readThresholds(r io.Reader) (thresholds, error) {
	t := thresholds{most: make(map[string]uint64)}
	in := bufio.NewScanner(r)
	for line := 1; in.Scan(); line++ {
		s := strings.TrimSpace(in.Text())
		if s == "" || s[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(s, "=")
		name = strings.TrimSpace(name)
		n, err := strconv.ParseUint(strings.TrimSpace(value), 0, 64)
		if !ok || err != nil {
			return t, fmt.Errorf("line %d: invalid threshold %q: expected a line such as SymbolErrorCounter=10", line, s)
		}
		if _, err := findErrorCounter(name); err != nil {
			return t, fmt.Errorf("line %d: %w", line, err)
		}
		t.most[name] = n
		t.text += fmt.Sprintf("[%s = %d]", name, n)
	}
	return t, in.Err()
}

// thresholds reads the file that the option names, or else the default file if it exists.
func (s *session) thresholds(path string) (thresholds, error) {
	given := path != ""
	if !given {
		path = defaultThresholds
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) && !given {
		return thresholds{}, nil
	}
	if err != nil {
		return thresholds{}, err
	}
	defer f.Close()
	t, err := readThresholds(f)
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// pma sends requests to the performance management agents of a fabric.
type pma struct {
	c        *fabric.Client
	levels   map[uint16]uint8 // service levels of the paths to LIDs
	silent   map[uint16]bool  // LIDs of a node that did not answer in time
	failures int
	note     func(format string, args ...any)
}

func newPMA(c *fabric.Client, note func(format string, args ...any)) *pma {
	return &pma{c: c, levels: make(map[uint16]uint8), silent: make(map[uint16]bool), note: note}
}

// to returns the address of the agent at a LID.
func (a *pma) to(lid uint16) mad.Addr {
	addr := a.c.GSI(lid)
	addr.SL = a.levels[lid]
	return addr
}

// learnLevels queries the service levels of the paths from this port.
func (a *pma) learnLevels(ctx context.Context, dgid verbs.GID) error {
	attr, err := a.c.Port().Attr()
	if err != nil {
		return err
	}
	if len(attr.GIDs) == 0 {
		return fmt.Errorf("%s port %d has no GID", attr.Device, attr.Port)
	}
	query := &mad.PathRecord{SGID: attr.GIDs[0], DGID: dgid, NumPaths: 1}
	mask := mad.MaskPathSGID | mad.MaskPathNumPaths | mad.MaskPathReversible
	if dgid != (verbs.GID{}) {
		mask |= mad.MaskPathDGID
	}
	paths, err := fabric.Query(ctx, a.c, mask, query)
	for _, p := range paths {
		a.levels[p.DLID] = p.SL
	}
	if errors.Is(err, fabric.ErrTruncated) {
		return nil
	}
	return err
}

// failed prints a note about a failed request.
func (a *pma) failed(what, node string, lid uint16, port uint8, err error) {
	a.failures++
	a.silent[lid] = a.silent[lid] || errors.Is(err, mad.ErrTimeout)
	a.note("%s query failed on %s, Lid %d port %d: %s", what, node, lid, port, cli.PlainLine(err))
}

// portErrors holds the counters of a port.
type portErrors struct {
	slim mad.PortCounters
	wide *mad.PortCountersExtended // nil if the port lacks it
	info mad.ClassPortInfo
}

// read reads the counters of a port.
func (a *pma) read(ctx context.Context, info mad.ClassPortInfo, node string, lid uint16, port uint8) (*portErrors, bool) {
	e := &portErrors{info: info, slim: mad.PortCounters{PortSelect: port}}
	if err := a.c.GetPerf(ctx, a.to(lid), &e.slim); err != nil {
		a.failed("PortCounters", node, lid, port, err)
		return nil, false
	}
	if info.CapMask&perfXmitWait == 0 {
		e.slim.XmitWait = 0
	}
	if info.CapMask&(perfExtended|perfNoIETF) != 0 {
		e.wide = &mad.PortCountersExtended{PortSelect: port}
		if err := a.c.GetPerf(ctx, a.to(lid), e.wide); err != nil {
			a.failed("PortCountersExtended", node, lid, port, err)
			return nil, false
		}
	}
	return e, true
}

// found is a counter and its value.
type found struct {
	name  string
	value uint64
	wide  bool // whether it has 64 bits
	data  bool // whether its unit is a word of 4 bytes
}

func (f found) String() string {
	if f.wide {
		return fmt.Sprintf(" [%s == %d (%s)]", f.name, f.value, humanCount(f.value, f.data))
	}
	return fmt.Sprintf(" [%s == %d]", f.name, f.value)
}

// humanCount returns a count with a unit, as C's programs print it. Units are powers of 1024, and the
// number is rounded as a 32-bit float.
func humanCount(n uint64, data bool) string {
	step, div := 0, uint64(1)
	for v := n / 1024; v != 0; v /= 1024 {
		step++
		div *= 1024
	}
	v := float32(n)
	if data {
		v *= wordSize
		if v/float32(div) > 1024 {
			step++
			div *= 1024
		}
	}
	v /= float32(div)
	unit := []string{"", "K", "M", "G", "T", "P", "E"}[min(step, 6)]
	if data {
		unit += "B"
	}
	return fmt.Sprintf("%5.3f%s", v, unit)
}

// above returns the errors that exceed the thresholds.
func (e *portErrors) above(t thresholds, suppressed map[string]bool) []found {
	var all []found
	for _, c := range errorCounters {
		f := found{name: c.name, value: c.slim(&e.slim)}
		if e.wide != nil && e.info.CapMask2&perfErrors64 != 0 {
			f.value, f.wide = c.wide(e.wide), true
		}
		if !suppressed[c.name] && f.value > t.most[c.name] {
			all = append(all, f)
		}
	}
	return all
}

// data returns the packet and data counters.
func (e *portErrors) data() []found {
	var a mad.Attribute = &e.slim
	last := "PortRcvPkts"
	if e.wide != nil {
		a = e.wide
		if e.info.CapMask&perfExtended != 0 {
			last = "PortMulticastRcvPkts"
		}
	}
	var all []found
	fields := mad.LayoutOf(a).Fields
	for i := range fields {
		f := &fields[i]
		if len(all) == 0 && f.Name != "PortXmitData" {
			continue
		}
		all = append(all, found{f.Name, f.Uint(a), true, strings.HasSuffix(f.Name, "Data")})
		if f.Name == last {
			break
		}
	}
	return all
}

// details returns the counters that a counter consists of.
func (a *pma) details(ctx context.Context, counter, node string, lid uint16, port uint8) []found {
	var d mad.Attribute
	switch counter {
	case "PortRcvErrors":
		d = &mad.PortRcvErrorDetails{PortSelect: port}
	case "PortXmitDiscards":
		d = &mad.PortXmitDiscardDetails{PortSelect: port}
	default:
		return nil
	}
	if err := a.c.GetPerf(ctx, a.to(lid), d); err != nil {
		a.failed(mad.LayoutOf(d).Name, node, lid, port, err)
		return nil
	}
	var all []found
	fields := mad.LayoutOf(d).Fields
	for i := range fields {
		f := &fields[i]
		if v := f.Uint(d); v != 0 && !strings.HasSuffix(f.Name, "Select") {
			all = append(all, found{name: f.Name, value: v})
		}
	}
	return all
}

// checking is the state of the command.
type checking struct {
	*session
	*pma
	o          *errorsOptions
	names      fabric.Names
	thresholds thresholds
	suppressed map[string]bool
	list       []table.Table

	nodes, badNodes, ports, badPorts int
	notReset                         bool // counters could not be reset
}

func showErrors(ctx context.Context, s *session, o *errorsOptions, _ []string) error {
	k := &checking{session: s, o: o, suppressed: make(map[string]bool), list: []table.Table{}}
	if o.switchRelay {
		o.suppressed = append(o.suppressed, "PortRcvSwitchRelayErrors")
	}
	for _, name := range o.suppressed {
		k.suppressed[name] = true
	}
	var err error
	if k.names, err = s.nodeNames(); err != nil {
		return err
	}
	if k.thresholds, err = s.thresholds(o.thresholds); err != nil {
		return err
	}
	c, err := s.open()
	if err != nil {
		return err
	}
	k.pma = newPMA(c, s.Note)
	f, part, err := s.scope(ctx, o.walk, o.direct, o.portGUID)
	if f == nil {
		return err
	}
	if err != nil {
		s.Note("%s; the nodes found until then follow", cli.PlainLine(err))
	}
	if !o.skipSL {
		if err := k.learnLevels(ctx, verbs.GID{}); err != nil {
			s.Note("using service level 0, because the service levels of paths are unknown: %s", cli.PlainLine(err))
		}
	}
	for n := range f.NewestFirst(0) {
		if part && n != f.From.Node || !o.wants(n.Info.Type) {
			continue
		}
		if failed := k.node(ctx, n); failed != nil {
			return failed
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if failed := k.summary(); failed != nil {
		return failed
	}
	code := s.problems(f)
	switch {
	case code != nil && !part: // for a single node, problems elsewhere don't matter
		return code
	case err != nil, k.badPorts > 0, k.failures > 0, k.notReset:
		return cli.ExitCode(cli.ExitFailed)
	}
	return nil
}

func (o *errorsOptions) wants(t mad.NodeType) bool {
	switch {
	case !o.switches && !o.adapters && !o.routers:
		return true
	case t == mad.NodeSwitch:
		return o.switches
	case t == mad.NodeCA:
		return o.adapters
	}
	return o.routers
}

// portGUID returns the GUID of a port. All ports of a switch have the GUID of port 0.
func portGUID(n *fabric.Node, port uint8) verbs.GUID {
	if n.Info.Type == mad.NodeSwitch {
		port = 0
	}
	if p := n.Port(int(port)); p != nil {
		return p.GUID
	}
	return n.Info.PortGUID
}

// node checks the ports of a node. A LID that doesn't answer is not asked again: a dead switch would
// hold up the rest for the time-out of each of its ports.
func (k *checking) node(ctx context.Context, n *fabric.Node) error {
	name := k.names.Of(n)
	clear(k.silent)
	first := 1
	var asked *fabric.Port
	if n.Info.Type == mad.NodeSwitch {
		if asked = n.Port(0); n.Switch != nil && n.Switch.EnhancedPort0 {
			first = 0
		}
	}
	for p := 1; asked == nil && p < len(n.Ports); p++ {
		asked = n.Ports[p]
	}
	if asked == nil {
		return nil
	}
	info, err := k.c.ClassPortInfo(ctx, k.to(asked.LID()), mad.ClassPerf)
	if err != nil {
		k.failed("ClassPortInfo", name, asked.LID(), asked.Number, err)
	}
	all := info.CapMask&perfAllPorts != 0
	header := false
	if !k.o.dataOnly && all {
		result, err := k.checkPort(ctx, info, n, name, asked.LID(), mad.AllPorts, &header)
		if err != nil {
			return err
		}
		if result == portGood {
			k.nodes++
			k.ports += int(n.Info.NumPorts)
			k.clear(ctx, info, name, asked.LID(), mad.AllPorts)
			return nil
		}
	}
	var read []*fabric.Port
	complete := true
	for i := first; i < len(n.Ports); i++ {
		p := n.Ports[i]
		if p == nil {
			continue
		}
		result := portUnread
		if !k.silent[p.LID()] {
			if result, err = k.checkPort(ctx, info, n, name, p.LID(), p.Number, &header); err != nil {
				return err
			}
		}
		if result == portUnread {
			complete = false
			continue
		}
		read = append(read, p)
	}
	if len(read) == 0 {
		return nil
	}
	k.nodes++
	k.ports += len(read)
	if all && complete {
		k.clear(ctx, info, name, asked.LID(), mad.AllPorts)
		return nil
	}
	for _, p := range read {
		k.clear(ctx, info, name, p.LID(), p.Number)
	}
	return nil
}

// portResult is what checkPort found.
type portResult uint8

const (
	portUnread portResult = iota // its counters could not be read
	portGood
	portPrinted // because of its errors, or because the options want its data
)

// checkPort prints a port with its errors, or with its data if the options want that. header says
// whether the heading of the node has been printed.
func (k *checking) checkPort(ctx context.Context, info mad.ClassPortInfo, n *fabric.Node, name string, lid uint16, port uint8, header *bool) (portResult, error) {
	e, ok := k.read(ctx, info, name, lid, port)
	if !ok {
		return portUnread, nil
	}
	var bad []found
	title, id := fmt.Sprintf("Data Counters for 0x%x \"%s\"", uint64(n.Info.NodeGUID), name), n.Info.NodeGUID
	if k.o.dataOnly {
		bad = e.data()
	} else {
		for _, f := range e.above(k.thresholds, k.suppressed) {
			bad = append(bad, f)
			if k.o.details && !k.silent[lid] {
				bad = append(bad, k.details(ctx, f.name, name, lid, port)...)
			}
		}
		if len(bad) == 0 {
			return portGood, nil
		}
		if k.o.data {
			for _, f := range e.data() {
				if f.value != 0 {
					bad = append(bad, f)
				}
			}
		}
		title, id = fmt.Sprintf("Errors for \"%s\"", name), portGUID(n, port)
		if n.Info.Type == mad.NodeSwitch {
			title = fmt.Sprintf("Errors for 0x%x \"%s\"", uint64(portGUID(n, 0)), name)
		}
		if !*header {
			k.badNodes++
		}
		if port != mad.AllPorts {
			k.badPorts++
		}
	}
	if k.JSON {
		*header = true
		if port != mad.AllPorts {
			k.list = append(k.list, badPortTable(n, name, lid, port, bad))
		}
		return portPrinted, nil
	}
	if !*header {
		*header = true
		if err := k.Printf("%s\n", title); err != nil {
			return portPrinted, err
		}
	}
	if port == mad.AllPorts && n.Info.Type != mad.NodeSwitch {
		return portPrinted, nil
	}
	number := strconv.Itoa(int(port))
	if port == mad.AllPorts {
		number = "ALL"
	}
	var text strings.Builder
	for _, f := range bad {
		text.WriteString(f.String())
	}
	if err := k.Printf("   GUID 0x%x port %s:%s\n", uint64(id), number, &text); err != nil {
		return portPrinted, err
	}
	if p := n.Port(int(port)); k.o.report && port != mad.AllPorts && p.Info != nil {
		return portPrinted, k.Printf("%s\n", linkInfo(p, k.names))
	}
	return portPrinted, nil
}

func badPortTable(n *fabric.Node, name string, lid uint16, port uint8, bad []found) table.Table {
	counters := table.Table{}
	for _, f := range bad {
		counters.Add(f.name, f.value)
	}
	return table.Table{
		{Key: "node", Value: name}, {Key: "node_guid", Value: guid(n.Info.NodeGUID)}, {Key: "port_guid", Value: guid(portGUID(n, port))},
		{Key: "lid", Value: uint32(lid)}, {Key: "port", Value: uint32(port)}, {Key: "counters", Value: counters},
	}
}

// linkInfo returns the link of a port in the format of ibqueryerrors.
func linkInfo(p *fabric.Port, names fabric.Names) string {
	s := fmt.Sprintf("       Link info: %6d%4d[  ] ==%s==>  ", p.LID(), p.Number, linkText(p, false))
	q := p.Remote
	if q == nil {
		return s + "           [  ] \"\" ( )"
	}
	width, speed := couldBe(p)
	return s + fmt.Sprintf("%s %6d %4d[  ] \"%s\" (%s %s)", guid(q.GUID), q.LID(), q.Number, names.Of(q.Node), width, speed)
}

// clear resets the counters that the options select.
func (k *checking) clear(ctx context.Context, info mad.ClassPortInfo, name string, lid uint16, port uint8) {
	set := func(a mad.Attribute) {
		if k.silent[lid] {
			k.notReset = true
			return
		}
		if err := k.c.SetPerf(ctx, k.to(lid), a); err != nil {
			k.notReset = true
			k.silent[lid] = errors.Is(err, mad.ErrTimeout)
			k.Note("Failed to reset %s of %s port %d: %s", mad.LayoutOf(a).Name, name, port, cli.PlainLine(err))
		}
	}
	const errorBits, waitBit, dataBits = 0x0fff, 1, 0xf000
	slim := mad.PortCounters{PortSelect: port}
	wide := mad.PortCountersExtended{PortSelect: port}
	if k.o.clearErrors {
		slim.CounterSelect |= errorBits
		if info.CapMask&perfXmitWait != 0 {
			slim.CounterSelect2 |= waitBit
		}
		if info.CapMask2&perfErrors64 != 0 {
			wide.CounterSelect2 |= errorBits
			if info.CapMask&perfXmitWait != 0 {
				wide.CounterSelect2 |= waitBit << 12
			}
		}
	}
	if k.o.clearData {
		slim.CounterSelect |= dataBits
		wide.CounterSelect |= 0x0f
		if info.CapMask&perfExtended != 0 {
			wide.CounterSelect |= 0xf0
		}
	}
	if slim.CounterSelect != 0 {
		set(&slim)
	}
	if k.o.clearErrors && k.o.details {
		set(&mad.PortXmitDiscardDetails{PortSelect: port, CounterSelect: 0x0f})
		set(&mad.PortRcvErrorDetails{PortSelect: port, CounterSelect: 0x3f})
	}
	if info.CapMask&(perfExtended|perfNoIETF) != 0 && (wide.CounterSelect != 0 || wide.CounterSelect2 != 0) {
		set(&wide)
	}
}

// summary prints the number of checked nodes and ports.
func (k *checking) summary() error {
	if k.JSON {
		limits := maps.Clone(k.thresholds.most)
		if limits == nil {
			limits = map[string]uint64{}
		}
		return k.WriteJSON(table.Table{
			{Key: "ports", Value: k.list}, {Key: "nodes_checked", Value: k.nodes}, {Key: "bad_nodes", Value: k.badNodes},
			{Key: "ports_checked", Value: k.ports}, {Key: "bad_ports", Value: k.badPorts}, {Key: "failed_queries", Value: k.failures},
			{Key: "thresholds", Value: limits}, {Key: "suppressed", Value: append([]string{}, k.o.suppressed...)},
		})
	}
	text := fmt.Sprintf("\n## Summary: %d nodes checked, %d bad nodes found\n##          %d ports checked, %d ports have errors beyond threshold\n## Thresholds: %s\n",
		k.nodes, k.badNodes, k.ports, k.badPorts, k.thresholds.text)
	if k.failures > 0 {
		text += fmt.Sprintf("##          %d PMA query failures\n", k.failures)
	}
	text += "## Suppressed:"
	for _, name := range k.o.suppressed {
		text += " " + name
	}
	return k.Printf("%s\n", text)
}
