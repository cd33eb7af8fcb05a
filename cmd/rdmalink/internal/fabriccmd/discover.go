package fabriccmd

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
)

type discoverOptions struct {
	common
	walk
	full, list, ports, maxHops, dot, chassis bool
	onlyCA, onlySwitch, onlyRouter           bool
	nodes, save, diff                        string
	kinds                                    map[fabric.ChangeKind]bool // that a diff prints; nil: all
	types                                    map[mad.NodeType]bool      // of nodes that it says are added or removed
}

// walk holds the options of commands that discover the fabric.
type walk struct {
	inFlight, hops int
	cache          string // a discovery to load, in place of one
}

// walkOptions is implemented by options that embed walk.
type walkOptions[T any] interface {
	commandOptions[T]
	walking() *walk
}

func (w *walk) walking() *walk { return w }

func walkRows[T any, P walkOptions[T]]() []cli.Row[T] {
	return []cli.Row[T]{
		cli.NewRow('o', "outstanding_smps", "N", "maximum number of outstanding requests (default 2)", cli.Number("number of requests", 1, math.MaxUint16, func(o *T) *int { return &P(o).walking().inFlight })),
	}
}

// cacheRow is the option of commands that need no fabric but its discovery.
func cacheRow[T any, P walkOptions[T]]() cli.Row[T] {
	return cli.NewRow(0, "load-cache", "FILE", "use the discovery in this file of discover --cache or -j, instead of a new one", func(o *T, v string) error { P(o).walking().cache = v; return nil })
}

// discover discovers the fabric. It fails if the first node doesn't answer. Later failures are
// Problems of the fabric.
func (s *session) discover(ctx context.Context, w walk) (*fabric.Fabric, error) {
	if w.cache != "" {
		f, _, err := loadFabric(w.cache)
		return f, err
	}
	c, err := s.open()
	if err != nil {
		return nil, err
	}
	return c.Discover(ctx, &fabric.DiscoverOptions{InFlight: w.inFlight, MaxHops: w.hops, MlnxExt: true})
}

// scope walks the fabric, or only the surroundings of a node that a directed route or a port GUID
// names: one hop, unless the options have another number. part says that it did the latter.
func (s *session) scope(ctx context.Context, w walk, direct, portGUID string) (f *fabric.Fabric, part bool, err error) {
	if direct == "" && portGUID == "" {
		f, err := s.discover(ctx, w)
		return f, false, err
	}
	if w.cache != "" {
		f, err := cachedScope(w.cache, direct, portGUID)
		return f, true, err
	}
	c, err := s.open()
	if err != nil {
		return nil, true, err
	}
	options := &fabric.DiscoverOptions{InFlight: w.inFlight, MaxHops: max(w.hops, 1), MlnxExt: true}
	if direct != "" {
		options.From, err = s.route(ctx, c, target{direct: true}, direct)
	} else {
		options.From, err = s.route(ctx, c, target{byGUID: true}, portGUID)
	}
	if err != nil {
		return nil, true, err
	}
	f, err = c.Discover(ctx, options)
	return f, true, err
}

// cachedScope loads a discovery that begins at the port with a GUID.
func cachedScope(path, direct, portGUID string) (*fabric.Fabric, error) {
	if direct != "" {
		return nil, cli.UsageError{Text: "--load-cache cannot be combined with a directed route"}
	}
	want, err := parseGUID(portGUID)
	if err != nil {
		return nil, err
	}
	f, _, err := loadFabric(path)
	if err != nil {
		return nil, err
	}
	for _, n := range f.Nodes {
		for _, p := range n.Ports {
			if p != nil && p.GUID == want {
				f.From = p
				return f, nil
			}
		}
	}
	return nil, fmt.Errorf("%s has no port with GUID %s", path, guid(want))
}

var discover = define(&program{
	name: "discover", args: "[OPTIONS] [FILE]",
	summary: "find all nodes and links of the fabric and print its topology",
	text: `
It prints the topology in the format that ibnetdiscover writes and ibsim reads, or
writes it to FILE. Discovery needs neither LIDs nor a subnet manager. If nodes do not
respond, it names them at the end, prints the rest, and exits with 1. --diff compares
with a discovery that --cache or -j saved, and exits with 1 if the fabric has changed.
`,
}, 1, append(append(commonRows[discoverOptions](), walkRows[discoverOptions]()...),
	cli.NewRow('l', "list", "", "print a line for each node", cli.Flag(func(o *discoverOptions) *bool { return &o.list })),
	cli.NewRow('H', "Hca_list", "", "print a line for each channel adapter", cli.Flag(func(o *discoverOptions) *bool { return &o.onlyCA })),
	cli.NewRow('S', "Switch_list", "", "print a line for each switch", cli.Flag(func(o *discoverOptions) *bool { return &o.onlySwitch })),
	cli.NewRow('R', "Router_list", "", "print a line for each router", cli.Flag(func(o *discoverOptions) *bool { return &o.onlyRouter })),
	cli.NewRow('p', "ports", "", "print a line for each port", cli.Flag(func(o *discoverOptions) *bool { return &o.ports })),
	cli.NewRow('f', "full", "", "also print speeds, widths and virtual lanes of links as numbers", cli.Flag(func(o *discoverOptions) *bool { return &o.full })),
	cli.NewRow('m', "max_hops", "", "print the length of the longest route", cli.Flag(func(o *discoverOptions) *bool { return &o.maxHops })),
	cli.NewRow('g', "grouping", "", "group the nodes by chassis: those with the same system image GUID", cli.Flag(func(o *discoverOptions) *bool { return &o.chassis })),
	cli.NewRow(0, "nodes", "KIND", "print hosts, switches, routers or all, in the format of ibhosts, ibswitches, ibrouters and ibnodes", setNodes),
	cli.NewRow(0, "cache", "FILE", "also save the discovery to a file, in the format of -j", func(o *discoverOptions, v string) error { o.save = v; return nil }),
	cacheRow[discoverOptions](),
	cli.NewRow(0, "diffcheck", "KEYS", "with --diff, print only these changes: a list of sw, ca, router, port, lid and nodedesc", setDiffCheck),
	cli.NewRow(0, "diff", "FILE", "print the changes since the discovery in this file", func(o *discoverOptions, v string) error { o.diff = v; return nil }),
	cli.NewRow(0, "dot", "", "print a graph for Graphviz", cli.Flag(func(o *discoverOptions) *bool { return &o.dot })),
	namesRow[discoverOptions](),
), showTopology)

// setDiffCheck selects the changes that --diff prints.
func setDiffCheck(o *discoverOptions, v string) error {
	o.kinds, o.types = make(map[fabric.ChangeKind]bool), make(map[mad.NodeType]bool)
	types := map[string]mad.NodeType{"sw": mad.NodeSwitch, "ca": mad.NodeCA, "router": mad.NodeRouter}
	kinds := map[string][]fabric.ChangeKind{
		"port": {fabric.LinkAdded, fabric.LinkRemoved, fabric.LinkMoved, fabric.StateChanged, fabric.SpeedChanged},
		"lid":  {fabric.LIDChanged}, "nodedesc": {fabric.DescriptionChanged},
	}
	for _, key := range strings.Split(v, ",") {
		switch {
		case types[key] != 0:
			o.types[types[key]] = true
		case kinds[key] != nil:
			for _, k := range kinds[key] {
				o.kinds[k] = true
			}
		default:
			return cli.Expected(key, "sw", "ca", "router", "port", "lid", "nodedesc")
		}
	}
	return nil
}

// checks reports whether a diff prints a change.
func (o *discoverOptions) checks(c fabric.Change) bool {
	n := c.Old
	if n == nil {
		n = c.New
	}
	switch c.Kind {
	case fabric.NodeAdded, fabric.NodeRemoved, fabric.NodeChanged:
		return o.types == nil || o.types[n.Info.Type]
	}
	return o.kinds == nil || o.kinds[c.Kind]
}

func setNodes(o *discoverOptions, v string) error {
	if _, ok := nodeKinds[v]; !ok {
		return cli.Expected(v, "hosts", "switches", "routers", "all")
	}
	o.nodes = v
	return nil
}

var nodeKinds = map[string][]mad.NodeType{
	"hosts": {mad.NodeCA}, "switches": {mad.NodeSwitch}, "routers": {mad.NodeRouter}, "all": {mad.NodeCA, mad.NodeSwitch},
}

func showTopology(ctx context.Context, s *session, o *discoverOptions, words []string) error {
	if err := o.checkOutputs(words); err != nil {
		return err
	}
	names, err := s.nodeNames()
	if err != nil {
		return err
	}
	t := &topology{o: o, names: names, time: time.Now()}
	if o.diff != "" {
		if t.old, _, err = loadFabric(o.diff); err != nil {
			return err
		}
	}
	if o.cache != "" {
		t.f, t.time, err = loadFabric(o.cache)
	} else {
		t.f, err = s.discover(ctx, o.walk)
	}
	if t.f == nil {
		return err
	}
	if err != nil {
		s.Note("%s; the nodes found until then follow", cli.PlainLine(err))
	}
	var failed error
	switch {
	case o.save != "" && err != nil:
		s.Note("%s was not written, because the discovery is incomplete", o.save)
	case o.save != "":
		if err := saveFabric(o.save, t.f); err != nil {
			return err
		}
	}
	if len(words) == 1 {
		failed = replaceFile(words[0], func(w io.Writer) error { return s.print(w, t) })
	} else {
		failed = s.print(s.Stdout, t)
	}
	if failed != nil {
		return failed
	}
	if code := s.problems(t.f); code != nil {
		return code
	}
	if err != nil || t.changed {
		return cli.ExitCode(cli.ExitFailed)
	}
	return nil
}

// checkOutputs returns an error if a file to write is also read. A discovery may replace the one with which it is
// compared, or from which it was loaded: no content is lost.
func (o *discoverOptions) checkOutputs(words []string) error {
	if err := cli.CheckOutput(o.save, o.names); err != nil || len(words) == 0 {
		return err
	}
	return cli.CheckOutput(words[0], o.names, o.cache, o.diff, o.save)
}

// topology is a discovery that is printed.
type topology struct {
	o       *discoverOptions
	names   fabric.Names
	f, old  *fabric.Fabric // old is nil unless --diff names it
	time    time.Time      // of the discovery
	changed bool           // whether f and old differ
}

// print prints a discovery in the format that the options select.
func (s *session) print(out io.Writer, t *topology) (err error) {
	to := *s
	to.Stdout = out
	o, f, names := t.o, t.f, t.names
	switch {
	case t.old != nil:
		t.changed, err = to.showChanges(t.old, f, names, o)
	case s.JSON:
		err = to.WriteJSON(f)
	case o.nodes != "":
		for _, k := range nodeKinds[o.nodes] {
			for n := range f.NewestFirst(k) {
				if err = to.Printf("%s\n", nodeLine(n, names)); err != nil {
					return err
				}
			}
		}
	case o.list, o.onlyCA, o.onlySwitch, o.onlyRouter:
		for _, k := range []struct {
			on bool
			t  mad.NodeType
		}{{o.list, 0}, {o.onlyCA && !o.list, mad.NodeCA}, {o.onlySwitch && !o.list, mad.NodeSwitch}, {o.onlyRouter && !o.list, mad.NodeRouter}} {
			if k.on && err == nil {
				err = f.WriteList(out, k.t, names)
			}
		}
	case o.ports:
		err = f.WritePorts(out, names)
	case o.dot:
		err = f.WriteDOT(out, names)
	default:
		err = f.WriteTopology(out, &fabric.TopologyOptions{Names: names, Time: t.time, Full: o.full, MaxHops: o.maxHops, Chassis: o.chassis})
	}
	return err
}

// showChanges prints the differences between two discoveries, and reports whether there are any.
func (s *session) showChanges(old, now *fabric.Fabric, names fabric.Names, o *discoverOptions) (bool, error) {
	changes := slices.DeleteFunc(fabric.Diff(old, now), func(c fabric.Change) bool { return !o.checks(c) })
	if !s.JSON {
		for _, c := range changes {
			if err := s.Printf("%v\n", c); err != nil {
				return true, err
			}
		}
		return len(changes) > 0, nil
	}
	list := []table.Table{}
	for _, c := range changes {
		n := c.New
		if n == nil {
			n = c.Old
		}
		t := table.Table{{Key: "kind", Value: c.Kind.String()}, {Key: "node", Value: names.Of(n)}, {Key: "node_guid", Value: guid(n.Info.NodeGUID)}}
		if c.Port >= 0 {
			t.Add("port", c.Port)
		}
		t.Add("text", c.String())
		list = append(list, t)
	}
	return len(changes) > 0, s.WriteJSON(list)
}

// nodeLine returns a node in the format of the scripts ibhosts and ibswitches.
func nodeLine(n *fabric.Node, names fabric.Names) string {
	kind := map[mad.NodeType]string{mad.NodeCA: "Ca", mad.NodeSwitch: "Switch", mad.NodeRouter: "Rt"}[n.Info.Type]
	line := fmt.Sprintf("%s\t: %s ports %d \"%s\"", kind, guid(n.Info.NodeGUID), n.Info.NumPorts, names.Of(n))
	if n.Info.Type == mad.NodeSwitch && n.Switch != nil {
		port0 := "base"
		if n.Switch.EnhancedPort0 {
			port0 = "enhanced"
		}
		lmc := uint8(0)
		if p := n.Port(0); p != nil {
			lmc = p.LMC()
		}
		line += fmt.Sprintf(" %s port 0 lid %d lmc %d", port0, n.LID(), lmc)
	}
	return line
}
