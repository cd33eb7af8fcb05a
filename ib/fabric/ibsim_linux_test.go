package fabric_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/madtest"
	"github.com/goverbs/goverbs/ib/umad"
	"github.com/goverbs/goverbs/internal/ibsimtest"
	"github.com/goverbs/goverbs/verbs"
)

// client attaches to a node of a simulator until the test ends.
func client(t *testing.T, c umad.IBSim, config *fabric.Config) *fabric.Client {
	t.Helper()
	p, err := umad.OpenIBSim(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return fabric.NewClient(p, config)
}

var generated = regexp.MustCompile(`(?m)^# Topology file: .*\n`)

// link returns the two lines of a topology file for ibsim that describe a link, one for each end.
func link(a string, p int, b string, q int) (string, string) {
	return fmt.Sprintf("[%d]\t\"%s\"[%d]\n", p, b, q), fmt.Sprintf("[%d]\t\"%s\"[%d]\n", q, a, p)
}

// generatedTopologies returns topologies for ibsim: a fat tree, a ring, a mesh with double links, a
// chain and a star. The discovery begins at the first host.
func generatedTopologies() map[string]string {
	type graph struct {
		order []string
		lines map[string]string
	}
	begin := func() *graph { return &graph{lines: make(map[string]string)} }
	connect := func(g *graph, a string, p int, b string, q int) {
		for _, n := range []string{a, b} {
			if g.lines[n] == "" {
				kind := "Switch\t24"
				if n[0] == 'H' {
					kind = "Hca\t2"
				}
				g.lines[n] = fmt.Sprintf("%s \"%s\"\n", kind, n)
				g.order = append(g.order, n)
			}
		}
		x, y := link(a, p, b, q)
		g.lines[a] += x
		g.lines[b] += y
	}
	text := func(g *graph) string {
		var s strings.Builder
		for _, n := range g.order {
			s.WriteString(g.lines[n] + "\n")
		}
		return s.String()
	}
	all := make(map[string]string)
	fat := begin()
	for i := range 8 {
		for k := range 5 {
			connect(fat, fmt.Sprintf("H%d.%d", i, k), 1, fmt.Sprintf("L%d", i), 10+k)
		}
		for j := range 4 {
			connect(fat, fmt.Sprintf("L%d", i), 1+j, fmt.Sprintf("S%d", j), 1+i)
		}
	}
	all["fat tree"] = text(fat)
	ring := begin()
	for i := range 7 {
		connect(ring, fmt.Sprintf("H%d", i), 1+i%2, fmt.Sprintf("R%d", i), 5)
		connect(ring, fmt.Sprintf("R%d", i), 1, fmt.Sprintf("R%d", (i+1)%7), 2)
	}
	all["ring"] = text(ring)
	mesh := begin()
	connect(mesh, "H", 1, "M0", 24)
	for i := range 5 {
		for j := range i {
			connect(mesh, fmt.Sprintf("M%d", i), 1+2*j, fmt.Sprintf("M%d", j), 1+2*i)
			connect(mesh, fmt.Sprintf("M%d", i), 2+2*j, fmt.Sprintf("M%d", j), 2+2*i)
		}
	}
	all["mesh"] = text(mesh)
	chain := begin()
	connect(chain, "H0", 1, "C0", 1)
	for i := range 20 {
		connect(chain, fmt.Sprintf("C%d", i), 2, fmt.Sprintf("C%d", i+1), 1)
	}
	connect(chain, "C20", 2, "H1", 2)
	all["chain"] = text(chain)
	star := begin()
	for i := range 12 {
		connect(star, fmt.Sprintf("H%d", i), 1, "X", 1+i)
		connect(star, fmt.Sprintf("H%d", i), 2, "X", 13+i)
	}
	all["star"] = text(star)
	return all
}

// TestIBNetDiscover compares discoveries with C's ibnetdiscover, on the topologies of ibsim's package
// and on generated ones that opensm has brought up.
func TestIBNetDiscover(t *testing.T) {
	topologies := generatedTopologies()
	for _, file := range ibsimtest.Examples(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		topologies[filepath.Base(file)] = string(text)
	}
	for name, topology := range topologies {
		t.Run(name, func(t *testing.T) {
			sim := ibsimtest.Start(t, topology)
			if !strings.HasPrefix(name, "net") {
				sim.OpenSM(t, "")
			}
			for _, inFlight := range []int{2, 16} {
				c := client(t, sim.Config(""), nil)
				f, err := c.Discover(t.Context(), &fabric.DiscoverOptions{InFlight: inFlight})
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range f.Problems {
					t.Error(p)
				}
				for _, form := range []struct {
					args  []string
					write func(*bytes.Buffer) error
				}{
					{nil, func(b *bytes.Buffer) error { return f.WriteTopology(b, &fabric.TopologyOptions{Time: time.Now()}) }},
					{[]string{"-f"}, func(b *bytes.Buffer) error {
						return f.WriteTopology(b, &fabric.TopologyOptions{Time: time.Now(), Full: true})
					}},
					{[]string{"-p"}, func(b *bytes.Buffer) error { return f.WritePorts(b, nil) }},
					{[]string{"-l"}, func(b *bytes.Buffer) error { return f.WriteList(b, 0, nil) }},
					{[]string{"-S"}, func(b *bytes.Buffer) error { return f.WriteList(b, mad.NodeSwitch, nil) }},
				} {
					var ours bytes.Buffer
					if err := form.write(&ours); err != nil {
						t.Fatal(err)
					}
					theirs := sim.Tool(t, "", "ibnetdiscover", form.args...)
					mask := func(s string) string { return generated.ReplaceAllString(s, "") }
					if d := cmp.Diff(mask(theirs), mask(ours.String())); d != "" {
						t.Errorf("%d requests in flight, ibnetdiscover %v (-C +ours):\n%s", inFlight, form.args, d)
					}
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if err := c.Port().Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestIBTracert compares traces with C's ibtracert.
func TestIBTracert(t *testing.T) {
	sim := ibsimtest.Start(t, example(t, "net.2sw2path4hca"))
	sim.OpenSM(t, "Hca1")
	c := client(t, sim.Config("Hca2"), nil)
	f, err := c.Discover(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := func(hops []fabric.Hop) string {
		var b strings.Builder
		end := func(word string, h fabric.Hop, port uint8) {
			if h.Node.Type == mad.NodeSwitch {
				port = 0
			}
			fmt.Fprintf(&b, "%s {0x%016x}[%d]\n", word, uint64(h.Node.NodeGUID), port)
		}
		for i, h := range hops {
			if i == 0 {
				end("From", h, h.Node.LocalPort)
			} else {
				fmt.Fprintf(&b, "[%d] -> {0x%016x}[%d]\n", hops[i-1].Out, uint64(h.Node.PortGUID), h.In)
			}
		}
		end("To", hops[len(hops)-1], hops[len(hops)-1].Node.LocalPort)
		return b.String()
	}
	lids := 0
	for from := uint16(1); f.PortByLID(from) != nil; from++ {
		lids++
		for to := uint16(1); f.PortByLID(to) != nil; to++ {
			hops, err := c.Trace(t.Context(), from, to)
			if err != nil {
				t.Errorf("%d to %d: %v", from, to, err)
				continue
			}
			if to%3 != 0 && from%2 != 0 { // only some of the pairs, to save time
				continue
			}
			if d := cmp.Diff(sim.Tool(t, "Hca2", "ibtracert", "-n", fmt.Sprint(from), fmt.Sprint(to)), text(hops)); d != "" {
				t.Errorf("%d to %d (-C +ours):\n%s", from, to, d)
			}
		}
	}
	if lids != 6 {
		t.Errorf("%d LIDs", lids)
	}
	if _, err := c.Trace(t.Context(), 1, 0xc000); !errors.Is(err, fabric.ErrBadTarget) {
		t.Errorf("a multicast LID: %v", err)
	}
}

// example returns a topology of ibsim's package.
func example(t *testing.T, name string) string {
	t.Helper()
	for _, file := range ibsimtest.Examples(t) {
		if filepath.Base(file) == name {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
	t.Fatalf("ibsim's package has no %s", name)
	return ""
}

// TestDumps compares the attributes of nodes with the output of C's smpquery and perfquery.
func TestDumps(t *testing.T) {
	sim := ibsimtest.Start(t, example(t, "net.2sw2path4hca"))
	sim.OpenSM(t, "Hca1")
	c := client(t, sim.Config("Hca2"), nil)
	sm, err := c.SM()
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Discover(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const switchLID = 2
	if p := f.PortByLID(switchLID); p == nil || p.Node.Info.Type != mad.NodeSwitch {
		t.Fatalf("LID %d is no switch", switchLID)
	}
	get := func(lid uint16, modifier uint32, a mad.Attribute) string {
		t.Helper()
		if err := c.Get(t.Context(), mad.ByLID(lid), modifier, a); err != nil {
			t.Fatal(err)
		}
		return mad.Dump(a, nil)
	}
	for _, test := range []struct {
		tool string
		args []string
		ours string
	}{
		{"smpquery", []string{"nodeinfo", "1"}, "# Node info: Lid 1\n" + get(1, 0, &mad.NodeInfo{})},
		{"smpquery", []string{"switchinfo", "2"}, "# Switch info: Lid 2\n" + get(2, 0, &mad.SwitchInfo{})},
		{"smpquery", []string{"portinfo", "1", "1"}, "# Port info: Lid 1 port 1\n" + get(1, 1, &mad.PortInfo{})},
		{"smpquery", []string{"portinfo", "2", "4"}, "# Port info: Lid 2 port 4\n" + get(2, 4, &mad.PortInfo{})},
	} {
		theirs := sim.Tool(t, "Hca2", test.tool, test.args...)
		// C's release of 2022 lacks these newer fields.
		ours := regexp.MustCompile(`(?m)^LinkSpeedExt\w+2:.*\n`).ReplaceAllString(test.ours, "")
		if d := cmp.Diff(theirs, ours); d != "" {
			t.Errorf("%s %v (-C +ours):\n%s", test.tool, test.args, d)
		}
	}

	counters := mad.PortCounters{PortSelect: 1}
	if err := c.GetPerf(t.Context(), c.GSI(1), &counters); err != nil || counters.XmitPkts == 0 {
		t.Errorf("%+v, %v", counters, err)
	}
	sim.Command(t, `PerformanceSet "Hca1"[1] PortCounters.SymbolErrorCounter=5`)
	for deadline := time.Now().Add(time.Minute); counters.SymbolErrors != 5 && time.Now().Before(deadline); {
		if err := c.GetPerf(t.Context(), c.GSI(1), &counters); err != nil {
			t.Fatal(err)
		}
	}
	if counters.SymbolErrors != 5 || counters.PortSelect != 1 {
		t.Errorf("%+v", counters)
	}
	if err := c.SetPerf(t.Context(), c.GSI(1), &mad.PortCounters{PortSelect: 1, CounterSelect: 0xffff}); err != nil {
		t.Error(err)
	}
	if err := c.GetPerf(t.Context(), c.GSI(1), &counters); err != nil || counters.SymbolErrors != 0 {
		t.Errorf("after the reset: %+v, %v", counters, err)
	}

	info, err := c.ClassPortInfo(t.Context(), sm, mad.ClassSA)
	if err != nil || info.ClassVersion != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	lid, err := c.ResolveLID(t.Context(), f.PortByLID(5).GUID)
	if err != nil || lid != 5 {
		t.Errorf("LID %d, %v", lid, err)
	}
	// ibsim carries only one segment, which holds one record.
	nodes, err := fabric.Query(t.Context(), c, 0, &mad.NodeRecord{})
	if !errors.Is(err, fabric.ErrTruncated) || len(nodes) != 1 {
		t.Errorf("%+v, %v", nodes, err)
	}
	nodes, err = fabric.Query(t.Context(), c, mad.MaskLID, &mad.NodeRecord{LID: 2})
	if err != nil || len(nodes) != 1 || nodes[0].Description.Text != f.PortByLID(2).Node.Description {
		t.Errorf("%+v, %v", nodes, err)
	}
	if nodes, err := fabric.Query(t.Context(), c, mad.MaskLID, &mad.NodeRecord{LID: 99}); err != nil || len(nodes) != 0 {
		t.Errorf("a LID that doesn't exist: %+v, %v", nodes, err)
	}
	var status *mad.StatusError
	if err := c.QueryOne(t.Context(), mad.MaskLID, &mad.NodeRecord{LID: 99}); !errors.As(err, &status) || status.Status != mad.StatusSANoRecords {
		t.Errorf("a LID that doesn't exist: %v", err)
	}
}

// TestMultiPathOpenSM asks opensm for the paths between several ports.
func TestMultiPathOpenSM(t *testing.T) {
	sim := ibsimtest.Start(t, example(t, "net.2sw2path4hca"))
	sim.OpenSM(t, "Hca1")
	c := client(t, sim.Config("Hca2"), nil)
	attr, err := c.Port().Attr()
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Discover(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	own := attr.GIDs[0]
	var others []verbs.GID
	var lids []uint16
	for n := range f.NewestFirst(mad.NodeCA) {
		g := own
		binary.BigEndian.PutUint64(g[8:], uint64(n.Info.PortGUID))
		others, lids = append(others, g), append(lids, n.Port(int(n.Info.LocalPort)).LID())
	}
	others = others[:2] // more paths don't fit into a segment
	paths, err := c.MultiPath(t.Context(), mad.MaskMultiPathNumPaths, mad.MultiPathRecord{NumPaths: 2}, []verbs.GID{own}, others)
	if err != nil || len(paths) != len(others) {
		t.Fatalf("%d paths, %v", len(paths), err)
	}
	for _, p := range paths {
		if i := slices.Index(others, p.DGID); i < 0 || p.SGID != own || p.SLID != attr.LID || p.DLID != lids[i] {
			t.Errorf("%+v", p)
		}
	}
}

// TestPing pings a responder at another node.
func TestPing(t *testing.T) {
	sim := ibsimtest.Start(t, example(t, "net.2sw2path4hca"))
	sim.OpenSM(t, "Hca1")
	config := sim.Config("Hca3")
	config.IsSM = true
	server, c := client(t, config, nil), client(t, sim.Config("Hca2"), nil)
	attr, err := server.Port().Attr()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- fabric.ServePing(t.Context(), server.Port(), mad.OUIOpenIB, "host.example") }()
	for deadline := time.Now().Add(time.Minute); ; {
		// The responder may not have registered yet.
		host, rtt, err := c.Ping(t.Context(), c.GSI(attr.LID), mad.OUIOpenIB)
		if err == nil {
			if host != "host.example" || rtt <= 0 {
				t.Errorf("%q, %v", host, rtt)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if err := server.Port().Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("ServePing: %v", err)
	}
}

// TestOpenSMOnSubnet runs opensm on a subnet in this process, over ibsim's protocol. It then compares
// the output of C's tools with ours.
func TestOpenSMOnSubnet(t *testing.T) {
	t.Run("unix", func(t *testing.T) { openSMOnSubnet(t, 0) })
	t.Run("udp", func(t *testing.T) { openSMOnSubnet(t, ibsimtest.FreePorts(t)) })
}

func openSMOnSubnet(t *testing.T, udp uint16) {
	top, err := madtest.FatTree(6, 2)
	if err != nil {
		t.Fatal(err)
	}
	s, err := madtest.NewSubnet(top)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("subnet%d", os.Getpid())
	network, address := "unixgram", name
	if udp != 0 {
		network, address = "udp", fmt.Sprintf("127.0.0.1:%d", udp)
	}
	srv, err := s.ListenIbsim(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() }) // after its clients
	sim := ibsimtest.Serving(t, name, udp)
	sim.OpenSM(t, "h1")
	for _, n := range s.Nodes() {
		for i := range 256 {
			p := n.Port(i)
			if p != nil && p.Peer() != nil && p.Info().LinkState != verbs.PortActive {
				t.Errorf("port %d of %s is %v", i, n.Name(), p.Info().LinkState)
			}
		}
	}
	c := client(t, sim.Config("h2"), nil)
	f, err := c.Discover(t.Context(), nil)
	if err != nil || len(f.Problems) != 0 || len(f.Nodes) != len(top.Nodes) {
		t.Fatalf("%d nodes, %v, %v", len(f.Nodes), err, f.Problems)
	}
	var b bytes.Buffer
	if err := f.WriteTopology(&b, &fabric.TopologyOptions{Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	theirs := sim.Tool(t, "h2", "ibnetdiscover")
	if diff := cmp.Diff(generated.ReplaceAllString(theirs, ""), generated.ReplaceAllString(b.String(), "")); diff != "" {
		t.Errorf("C's and ours: %s", diff)
	}
	if out := sim.Tool(t, "h2", "ibqueryerrors"); !strings.Contains(out, "27 nodes checked, 0 bad nodes found") {
		t.Errorf("ibqueryerrors: %s", out)
	}
	lid := s.Node("h18").Port(1).Info().LID
	if out := sim.Tool(t, "h2", "saquery", "NR", fmt.Sprint(lid)); !strings.Contains(out, "NodeDescription.........h18") {
		t.Errorf("saquery: %s", out)
	}
	p := s.Node("h18").Port(1).Peer()
	p.Count(func(c *mad.PortCountersExtended) { c.LinkErrorRecoveries = 77 })
	if out := sim.Tool(t, "h2", "perfquery", fmt.Sprint(p.Node().Port(0).Info().LID), fmt.Sprint(p.Num())); !strings.Contains(out, "LinkErrorRecoveryCounter:........77\n") {
		t.Errorf("perfquery: %s", out)
	}
}
