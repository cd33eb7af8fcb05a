package fabriccmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
)

type countersOptions struct {
	common
	target
	extended, all, loop, reset, resetOnly bool
	kind                                  *counterKind
	interval                              time.Duration
	count                                 int
}

// counterKind is an attribute of performance management that an option selects.
type counterKind struct {
	letter     byte
	long, help string
	title      string // heading of the counters
	make       func(port uint8, counters uint64) mad.Attribute
}

var counterKinds = []counterKind{
	{'X', "xmtsl", "print sent data by service level", "PortXmitDataSL counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortXmitDataSL{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{'S', "rcvsl", "print received data by service level", "PortRcvDataSL counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortRcvDataSL{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{'D', "xmtdisc", "print why packets were discarded", "PortXmitDiscardDetails counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortXmitDiscardDetails{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{'E', "rcverr", "print which errors packets were received with", "PortRcvErrorDetails counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortRcvErrorDetails{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{'T', "extended_speeds", "print the errors of lanes of links of FDR and faster", "PortExtendedSpeedsCounters counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortExtendedSpeedsCounters{PortSelect: p, CounterSelect: c}
	}},
	{0, "oprcvcounters", "print the counters of received packets and data", "PortOpRcvCounters counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortOpRcvCounters{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "flowctlcounters", "print flow control packets", "PortFlowCtlCounters counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortFlowCtlCounters{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "vloppackets", "print packets with an opcode by virtual lane", "PortVLOpPackets counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortVLOpPackets{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "vlopdata", "print data with an opcode by virtual lane", "PortVLOpData counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortVLOpData{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "vlxmitflowctlerrors", "print missing flow control updates by virtual lane", "PortVLXmitFlowCtlUpdateErrors counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortVLXmitFlowCtlUpdateErrors{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "vlxmitcounters", "print ticks of waiting for credits by virtual lane", "PortVLXmitWaitCounters counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortVLXmitWait{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "swportvlcong", "print the congestion of a switch's port by virtual lane", "SwPortVLCongestion counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.SwPortVLCongestion{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "rcvcc", "print packets received with congestion marks", "PortRcvConCtrl counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortRcvConCtrl{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "slrcvfecn", "print packets received with FECN by service level", "PortSLRcvFECN counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortSLRcvFECN{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "slrcvbecn", "print packets received with BECN by service level", "PortSLRcvBECN counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortSLRcvBECN{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "xmitcc", "print the congested time of the port", "PortXmitConCtrl counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortXmitConCtrl{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{0, "vlxmittimecc", "print congested time by virtual lane", "PortVLXmitTimeCong counters", func(p uint8, c uint64) mad.Attribute {
		return &mad.PortVLXmitTimeCong{PortSelect: p, CounterSelect: uint16(c)}
	}},
	{'c', "smplctl", "print how counters are sampled", "PortSamplesControl", func(p uint8, _ uint64) mad.Attribute {
		return &mad.PortSamplesControl{PortSelect: p}
	}},
}

var counters = define(&program{
	name: "counters", args: "[OPTIONS] [ADDRESS [PORTS [MASK]]]",
	summary: "print, reset or watch the counters of ports",
	text: `
The default address is this port. PORTS is a number, a list (1,4,8) or a range (1-10);
255 means all ports. MASK selects the counters that -r and -R reset, by the bits of
CounterSelect: 0x0fff selects the errors. With -i it prints the increase of the
counters per second until it is interrupted, without resetting them.
`,
}, 3, counterRows(), showCounters)

func counterRows() []cli.Row[countersOptions] {
	rows := append(commonRows[countersOptions](),
		cli.NewRow('L', "Lid", "", "the address is a LID (the default)", func(*countersOptions, string) error { return nil }),
		guidRow[countersOptions](),
		smRow[countersOptions](),
		cli.NewRow('x', "extended", "", "print the counters with 64 bits", cli.Flag(func(o *countersOptions) *bool { return &o.extended })),
	)
	for i := range counterKinds {
		k := &counterKinds[i]
		rows = append(rows, cli.NewRow(k.letter, k.long, "", k.help, func(o *countersOptions, _ string) error { o.kind = k; return nil }))
	}
	return append(rows,
		cli.NewRow('a', "all_ports", "", "print the sums of all ports", cli.Flag(func(o *countersOptions) *bool { return &o.all })),
		cli.NewRow('l', "loop_ports", "", "with -a or port 255: print each port", cli.Flag(func(o *countersOptions) *bool { return &o.loop })),
		cli.NewRow('r', "reset_after_read", "", "reset the counters after reading them", cli.Flag(func(o *countersOptions) *bool { return &o.reset })),
		cli.NewRow('R', "Reset_only", "", "only reset the counters", cli.Flag(func(o *countersOptions) *bool { return &o.resetOnly })),
		cli.NewRow('i', "interval", "TIME", "print rates over intervals of this length, such as 1s or 500ms", func(o *countersOptions, v string) error {
			d, err := time.ParseDuration(v)
			if n, numErr := strconv.ParseUint(v, 10, 16); numErr == nil {
				d, err = time.Duration(n)*time.Second, nil
			}
			if err != nil || d <= 0 {
				return cli.UsageError{Text: fmt.Sprintf("invalid interval %q: expected a duration such as 1s or 500ms", v)}
			}
			o.interval = d
			return nil
		}),
		cli.NewRow(0, "count", "N", "with -i: number of intervals", cli.Number("number of intervals", 1, math.MaxInt32, func(o *countersOptions) *int { return &o.count })),
	)
}

// Bits of CapMask and CapMask2 in the ClassPortInfo of performance management.
const (
	perfAllPorts   = 1 << 8
	perfExtended   = 1 << 9
	perfNoIETF     = 1 << 10 // PortCountersExtended lacks unicast and multicast packets
	perfXmitWait   = 1 << 12
	perfRSFEC      = 1 << 14
	perfQP1Dropped = 1 << 15
	perfErrors64   = 1 << 1 // in CapMask2: PortCountersExtended also has the errors
)

// counting is the state of the command: the port and its capabilities.
type counting struct {
	*session
	o    *countersOptions
	c    *fabric.Client
	to   mad.Addr
	info mad.ClassPortInfo
	mask uint64
	json []any
}

func showCounters(ctx context.Context, s *session, o *countersOptions, words []string) error {
	g := &counting{session: s, o: o, mask: math.MaxUint64, json: []any{}}
	ports := []uint8{0}
	if o.all {
		ports[0] = mad.AllPorts
	}
	if len(words) > 1 {
		var err error
		if ports, err = portList(words[1]); err != nil {
			return err
		}
	}
	if len(words) > 2 {
		n, err := strconv.ParseUint(words[2], 0, 64)
		if err != nil {
			return cli.UsageError{Text: fmt.Sprintf("invalid counter mask %q: expected a number such as 0x0fff", words[2])}
		}
		g.mask = n
	}
	if o.interval != 0 && (o.reset || o.resetOnly || o.kind != nil) {
		return cli.UsageError{Text: "-i cannot be combined with -r, -R or the options for other counters"}
	}
	var err error
	if g.c, err = s.open(); err != nil {
		return err
	}
	if len(words) == 0 {
		attr, err := s.port.Attr()
		if err != nil {
			return err
		}
		g.to = g.c.GSI(attr.LID)
		if !o.all {
			ports[0] = attr.Port
		}
	} else {
		lid, err := s.lid(ctx, g.c, o.target, words[0])
		if err != nil {
			return err
		}
		g.to = g.c.GSI(lid)
	}
	if g.info, err = g.c.ClassPortInfo(ctx, g.to, mad.ClassPerf); err != nil {
		return fmt.Errorf("LID %d: %w", g.to.LID, err)
	}
	everyPort := ports[0] == mad.AllPorts && len(ports) == 1
	if everyPort && g.info.CapMask&perfAllPorts == 0 && !o.all {
		return fmt.Errorf("LID %d does not support PortSelect 255, all ports: use -a or -l -a, which read one port after another", g.to.LID)
	}
	sum := o.all && !o.loop && len(ports) > 1
	if everyPort && (o.loop || g.info.CapMask&perfAllPorts == 0) {
		sum = !o.loop
		if ports, err = g.ports(ctx); err != nil {
			return err
		}
		if sum && !s.JSON {
			s.Note("LID %d does not support PortSelect 255, all ports: the counters of its ports are added", g.to.LID)
		}
	}
	switch {
	case o.kind != nil:
		err = g.special(ctx, ports, sum)
	case o.interval != 0:
		return g.rates(ctx, ports, sum)
	default:
		err = g.plain(ctx, ports, sum, len(words) > 2)
	}
	if s.JSON && (err == nil || len(g.json) > 0) {
		return errors.Join(s.WriteJSON(g.json), err)
	}
	return err
}

// portList parses port numbers such as 3, 1,4,8 or 1-10.
func portList(word string) ([]uint8, error) {
	if first, last, ok := strings.Cut(word, "-"); ok {
		from, err := portWord(first)
		if err != nil {
			return nil, err
		}
		to, err := portWord(last)
		if err != nil {
			return nil, err
		}
		if from >= to {
			return nil, cli.UsageError{Text: fmt.Sprintf("invalid range of ports %q: the last port must be greater than the first", word)}
		}
		var all []uint8
		for p := int(from); p <= int(to); p++ {
			all = append(all, uint8(p))
		}
		return all, nil
	}
	var all []uint8
	for _, w := range strings.Split(word, ",") {
		p, err := portWord(w)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// ports returns the ports of the node.
func (g *counting) ports(ctx context.Context) ([]uint8, error) {
	var node mad.NodeInfo
	to := mad.ByLID(g.to.LID)
	if err := g.c.Get(ctx, to, 0, &node); err != nil {
		return nil, err
	}
	first := 1
	if node.Type == mad.NodeSwitch {
		var sw mad.SwitchInfo
		if err := g.c.Get(ctx, to, 0, &sw); err != nil {
			return nil, err
		}
		if sw.EnhancedPort0 {
			first = 0
		}
	}
	var all []uint8
	for p := first; p <= int(node.NumPorts); p++ {
		all = append(all, uint8(p))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("LID %d has no ports", g.to.LID)
	}
	return all, nil
}

// show prints an attribute of a port.
func (g *counting) show(title string, port uint8, a mad.Attribute) error {
	omit := &mad.DumpOptions{Omit: g.omit(a)}
	if g.JSON {
		g.json = append(g.json, counterJSON(g.to.LID, port, a, omit))
		return nil
	}
	return g.Printf("# %s\n%s", title, mad.Dump(a, omit))
}

func counterJSON(lid uint16, port uint8, a mad.Attribute, o *mad.DumpOptions) table.Table {
	return table.Table{{Key: "lid", Value: uint32(lid)}, {Key: "port", Value: uint32(port)}, {Key: "attribute", Value: mad.LayoutOf(a).Name}, {Key: "counters", Value: rawJSON(mad.AppendJSON(nil, a, o))}}
}

// omit returns a filter for the extended counters that the port lacks.
func (g *counting) omit(a mad.Attribute) func(*mad.Field) bool {
	if _, ok := a.(*mad.PortCountersExtended); !ok {
		return nil
	}
	return func(f *mad.Field) bool {
		switch at := f.Bit / 8; {
		case f.Name == "CounterSelect2", at >= 72:
			return g.info.CapMask2&perfErrors64 == 0
		case at >= 40:
			return g.info.CapMask&perfExtended == 0
		}
		return false
	}
}

// special prints and resets the counters that an option selects. A port that fails doesn't keep the rest
// from being printed.
func (g *counting) special(ctx context.Context, ports []uint8, sum bool) error {
	k := g.o.kind
	var failed []error
	if !g.o.resetOnly || k.letter == 'c' {
		var total mad.Attribute
		title := k.title
		for _, port := range ports {
			a, text, err := g.readKind(ctx, port)
			switch {
			case err != nil:
				failed = append(failed, fmt.Errorf("LID %d port %d: %w", g.to.LID, port, err))
			case sum && k.letter != 'c':
				total, title = addCounters(total, a), text
			default:
				if err := g.show(fmt.Sprintf("%s: Lid %d port %d", text, g.to.LID, port), port, a); err != nil {
					return err
				}
			}
		}
		if total != nil {
			if err := g.show(fmt.Sprintf("%s: Lid %d port %d", title, g.to.LID, mad.AllPorts), mad.AllPorts, total); err != nil {
				return err
			}
		}
	}
	if (g.o.reset || g.o.resetOnly) && k.letter != 'c' {
		for _, port := range ports {
			if err := g.c.SetPerf(ctx, g.to, k.make(port, g.mask)); err != nil {
				failed = append(failed, fmt.Errorf("reset: LID %d port %d: %w", g.to.LID, port, err))
			}
		}
	}
	return errors.Join(failed...)
}

// readKind reads the counters of an option, and returns them with their title.
func (g *counting) readKind(ctx context.Context, port uint8) (mad.Attribute, string, error) {
	a, title := g.o.kind.make(port, 0), g.o.kind.title
	if _, ok := a.(*mad.PortExtendedSpeedsCounters); ok {
		rsfec, err := g.rsfec(ctx, port)
		if err != nil {
			return nil, "", err
		}
		if rsfec {
			a, title = &mad.PortExtendedSpeedsRSFECCounters{PortSelect: port}, "PortExtendedSpeedsCounters with RS-FEC Active counters"
		}
	}
	return a, title, g.c.GetPerf(ctx, g.to, a)
}

// rsfec reports whether the port uses RS-FEC.
func (g *counting) rsfec(ctx context.Context, port uint8) (bool, error) {
	if g.info.CapMask&perfRSFEC == 0 {
		return false, nil
	}
	const capMask2, extendedInfo = 1 << 15, 1 << 1
	to := mad.ByLID(g.to.LID)
	var node mad.NodeInfo
	if err := g.c.Get(ctx, to, 0, &node); err != nil {
		return false, err
	}
	own := port
	if node.Type == mad.NodeSwitch {
		own = 0
	}
	var info mad.PortInfo
	if err := g.c.Get(ctx, to, uint32(own), &info); err != nil {
		return false, err
	}
	if info.CapMask&capMask2 == 0 || info.CapMask2&extendedInfo == 0 {
		return false, nil
	}
	var ext mad.PortInfoExtended
	if err := g.c.Get(ctx, to, uint32(port), &ext); err != nil {
		return false, err
	}
	return ext.CapMask&1 != 0 && (ext.FECModeActive == 2 || ext.FECModeActive == 4), nil
}

// attribute returns an attribute that selects the counters of a port.
func (g *counting) attribute(port uint8) mad.Attribute {
	if g.o.extended {
		return &mad.PortCountersExtended{PortSelect: port}
	}
	return &mad.PortCounters{PortSelect: port}
}

// read reads the counters of a port.
func (g *counting) read(ctx context.Context, port uint8) (mad.Attribute, error) {
	a := g.attribute(port)
	if err := g.c.GetPerf(ctx, g.to, a); err != nil {
		return nil, fmt.Errorf("LID %d port %d: %w", g.to.LID, port, err)
	}
	if p, ok := a.(*mad.PortCounters); ok && g.info.CapMask&perfXmitWait == 0 {
		p.XmitWait = 0
	}
	return a, nil
}

// title returns the heading of the counters of a port.
func (g *counting) title(port uint8) string {
	if g.o.extended {
		return fmt.Sprintf("Port extended counters: Lid %d port %d (CapMask: 0x%02X CapMask2: 0x%07X)", g.to.LID, port, g.info.CapMask, g.info.CapMask2)
	}
	return fmt.Sprintf("Port counters: Lid %d port %d (CapMask: 0x%02X)", g.to.LID, port, g.info.CapMask)
}

// plain prints and resets the counters of ports. If a port fails, it continues with the next.
func (g *counting) plain(ctx context.Context, ports []uint8, sum, masked bool) error {
	var failed []error
	if !g.o.resetOnly {
		if g.o.extended && g.info.CapMask&(perfExtended|perfNoIETF) == 0 {
			g.Note("LID %d does not announce extended counters: CapMask is 0x%04x", g.to.LID, g.info.CapMask)
		}
		var total mad.Attribute
		for _, port := range ports {
			a, err := g.read(ctx, port)
			switch {
			case err != nil:
				failed = append(failed, err)
			case sum:
				total = addCounters(total, a)
			default:
				if err := g.show(g.title(port), port, a); err != nil {
					return err
				}
			}
		}
		if total != nil {
			if err := g.show(g.title(mad.AllPorts), mad.AllPorts, total); err != nil {
				return err
			}
		}
		if !g.o.reset {
			return errors.Join(failed...)
		}
	}
	for _, port := range ports {
		if err := g.c.SetPerf(ctx, g.to, g.resetRequest(port, masked)); err != nil {
			failed = append(failed, fmt.Errorf("reset: LID %d port %d: %w", g.to.LID, port, err))
		}
	}
	return errors.Join(failed...)
}

// resetRequest returns an attribute that resets the selected counters of a port. A second field selects
// the second half of the counters.
func (g *counting) resetRequest(port uint8, masked bool) mad.Attribute {
	mask := uint32(0xffff)
	if masked {
		mask = uint32(g.mask)
	}
	more := uint32(0)
	if g.info.CapMask&perfXmitWait != 0 {
		more |= 1
	}
	if g.info.CapMask&perfQP1Dropped != 0 {
		more |= 2
	}
	if g.o.extended {
		mask |= 0xfff0000 | more<<28
		return &mad.PortCountersExtended{PortSelect: port, CounterSelect: uint16(mask), CounterSelect2: mask >> 16}
	}
	if !masked {
		mask |= more << 16
	}
	if mask == 0 {
		mask = math.MaxUint32
	}
	return &mad.PortCounters{PortSelect: port, CounterSelect: uint16(mask), CounterSelect2: uint8(mask >> 16)}
}

// addCounters adds the counters of a port to a sum and returns the sum. A sum stays at the maximum of
// its field, as counters do.
func addCounters(sum, a mad.Attribute) mad.Attribute {
	if sum == nil {
		sum = mad.LayoutOf(a).New()
	}
	data := make([]byte, mad.LayoutOf(a).Size)
	fields := mad.LayoutOf(a).Fields
	for i := range fields {
		f := &fields[i]
		x, y := f.Uint(sum), f.Uint(a)
		most := uint64(math.MaxUint64) >> (64 - f.Width)
		switch {
		case f.Name == "PortSelect":
			x = mad.AllPorts
		case strings.HasPrefix(f.Name, "CounterSelect"):
			x = y
		case y > most-x:
			x = most
		default:
			x += y
		}
		setField(data, f, x)
	}
	_ = mad.Unmarshal(data, sum) // data has the length of the layout
	return sum
}

// setField writes a number to the bits of a field.
func setField(data []byte, f *mad.Field, v uint64) {
	for i := range f.Width {
		bit := f.Bit + f.Width - 1 - i
		data[bit/8] &^= 0x80 >> (bit % 8)
		data[bit/8] |= byte(v>>i&1) << (7 - bit%8)
	}
}

// reading holds the counters of the ports at one time.
type reading struct {
	at     time.Time
	values map[uint8]mad.Attribute
}

// rates prints the increase of the counters in each interval.
func (g *counting) rates(ctx context.Context, ports []uint8, sum bool) error {
	if g.info.CapMask&(perfExtended|perfNoIETF) != 0 {
		g.o.extended = true // 32-bit counters reach their maximum within seconds
	}
	read := func() (reading, error) {
		r := reading{time.Now(), make(map[uint8]mad.Attribute)}
		var failed []error
		for _, port := range ports {
			a, err := g.read(ctx, port)
			if err != nil {
				failed = append(failed, err)
				continue
			}
			if sum {
				a, port = addCounters(r.values[mad.AllPorts], a), mad.AllPorts
			}
			r.values[port] = a
		}
		if len(r.values) > 0 && ctx.Err() == nil {
			for _, err := range failed {
				g.Note("%s", cli.PlainLine(err))
			}
			return r, nil
		}
		return r, errors.Join(failed...)
	}
	before, err := read()
	if err != nil {
		return err
	}
	tick := time.NewTicker(g.o.interval)
	defer tick.Stop()
	if sum {
		ports = []uint8{mad.AllPorts}
	}
	for n := 0; g.o.count == 0 || n < g.o.count; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		now, err := read()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, port := range ports {
			a, b := before.values[port], now.values[port]
			if a == nil || b == nil {
				continue
			}
			if err := g.showRate(port, a, b, now.at.Sub(before.at)); err != nil {
				return err
			}
		}
		before = now
	}
	return nil
}

// wordSize is the unit of data counters in bytes.
const wordSize = 4

// showRate prints the increase of the counters of a port during a time.
func (g *counting) showRate(port uint8, before, now mad.Attribute, elapsed time.Duration) error {
	seconds := elapsed.Seconds()
	t := table.Table{{Key: "lid", Value: uint32(g.to.LID)}, {Key: "port", Value: uint32(port)}, {Key: "seconds", Value: seconds}}
	var text strings.Builder
	fmt.Fprintf(&text, "# Rates: Lid %d port %d over %.3f s\n", g.to.LID, port, seconds)
	omit := g.omit(now)
	fields := mad.LayoutOf(now).Fields
	for i := range fields {
		f := &fields[i]
		if strings.HasSuffix(f.Name, "Select") || strings.HasSuffix(f.Name, "Select2") || omit != nil && omit(f) {
			continue
		}
		a, b := f.Uint(before), f.Uint(now)
		rose := b
		if b >= a { // otherwise it was reset meanwhile
			rose = b - a
		}
		full := f.Width < 64 && b == 1<<f.Width-1
		isData := strings.HasSuffix(f.Name, "Data")
		traffic := isData || strings.HasSuffix(f.Name, "Pkts")
		if rose == 0 && !traffic && !full {
			continue
		}
		rate, unit, key := float64(rose)/seconds, "/s", f.Name+"_per_second"
		if isData {
			rate, unit, key = rate*wordSize, " B/s", f.Name+"_bytes_per_second"
		}
		t.Add(key, rate)
		fmt.Fprintf(&text, "%s:%s%.0f%s", f.Name, strings.Repeat(".", max(0, 32-len(f.Name))), rate, unit)
		if full {
			text.WriteString(" (the counter is full: reset it with -R)")
			t.Add(f.Name+"_full", true)
		}
		text.WriteByte('\n')
	}
	if g.JSON {
		return g.WriteJSON(t)
	}
	return g.Printf("%s", text.String())
}

// errorCounter is an error counter. PortCounters has it with few bits, and PortCountersExtended may
// have it with 64.
type errorCounter struct {
	name string
	wide func(*mad.PortCountersExtended) uint64
	slim func(*mad.PortCounters) uint64
}

var errorCounters = []errorCounter{
	{"SymbolErrorCounter", func(w *mad.PortCountersExtended) uint64 { return w.SymbolErrors }, func(p *mad.PortCounters) uint64 { return uint64(p.SymbolErrors) }},
	{"LinkErrorRecoveryCounter", func(w *mad.PortCountersExtended) uint64 { return w.LinkErrorRecoveries }, func(p *mad.PortCounters) uint64 { return uint64(p.LinkErrorRecoveries) }},
	{"LinkDownedCounter", func(w *mad.PortCountersExtended) uint64 { return w.LinkDowned }, func(p *mad.PortCounters) uint64 { return uint64(p.LinkDowned) }},
	{"PortRcvErrors", func(w *mad.PortCountersExtended) uint64 { return w.RcvErrors }, func(p *mad.PortCounters) uint64 { return uint64(p.RcvErrors) }},
	{"PortRcvRemotePhysicalErrors", func(w *mad.PortCountersExtended) uint64 { return w.RcvRemotePhysicalErrors }, func(p *mad.PortCounters) uint64 { return uint64(p.RcvRemotePhysicalErrors) }},
	{"PortRcvSwitchRelayErrors", func(w *mad.PortCountersExtended) uint64 { return w.RcvSwitchRelayErrors }, func(p *mad.PortCounters) uint64 { return uint64(p.RcvSwitchRelayErrors) }},
	{"PortXmitDiscards", func(w *mad.PortCountersExtended) uint64 { return w.XmitDiscards }, func(p *mad.PortCounters) uint64 { return uint64(p.XmitDiscards) }},
	{"PortXmitConstraintErrors", func(w *mad.PortCountersExtended) uint64 { return w.XmitConstraintErrors }, func(p *mad.PortCounters) uint64 { return uint64(p.XmitConstraintErrors) }},
	{"PortRcvConstraintErrors", func(w *mad.PortCountersExtended) uint64 { return w.RcvConstraintErrors }, func(p *mad.PortCounters) uint64 { return uint64(p.RcvConstraintErrors) }},
	{"LocalLinkIntegrityErrors", func(w *mad.PortCountersExtended) uint64 { return w.LocalLinkIntegrityErrors }, func(p *mad.PortCounters) uint64 { return uint64(p.LocalLinkIntegrityErrors) }},
	{"ExcessiveBufferOverrunErrors", func(w *mad.PortCountersExtended) uint64 { return w.ExcessiveBufferOverrunErrors }, func(p *mad.PortCounters) uint64 { return uint64(p.ExcessiveBufferOverrunErrors) }},
	{"VL15Dropped", func(w *mad.PortCountersExtended) uint64 { return w.VL15Dropped }, func(p *mad.PortCounters) uint64 { return uint64(p.VL15Dropped) }},
	{"PortXmitWait", func(w *mad.PortCountersExtended) uint64 { return w.XmitWait }, func(p *mad.PortCounters) uint64 { return uint64(p.XmitWait) }},
}
