package fabric_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/madtest"
	"github.com/goverbs/goverbs/verbs"
)

// openSubnet opens a port of a new subnet without a subnet manager.
func openSubnet(t testing.TB, top *madtest.Topology, node string) (*madtest.Subnet, *fabric.Client) {
	t.Helper()
	s, err := madtest.NewSubnet(top)
	if err != nil {
		t.Fatal(err)
	}
	port, err := s.Open(node, 1)
	if err != nil {
		t.Fatal(err)
	}
	c := fabric.NewClient(port, nil)
	t.Cleanup(func() {
		c.Close()
		port.Close()
	})
	return s, c
}

// BenchmarkDiscover discovers a fat tree of 11,271 nodes. Its time includes that of the nodes' answers.
func BenchmarkDiscover(b *testing.B) {
	top, err := madtest.FatTree(34, 3)
	if err != nil {
		b.Fatal(err)
	}
	_, c := openSubnet(b, top, "h1")
	nodes := len(top.Nodes)
	top = nil // the subnet has a copy
	b.ReportAllocs()
	for b.Loop() {
		f, err := c.Discover(b.Context(), &fabric.DiscoverOptions{InFlight: 8})
		if err != nil || len(f.Nodes) != nodes || len(f.Problems) != 0 {
			b.Fatalf("%d of %d nodes, %v, %v", len(f.Nodes), nodes, err, f.Problems)
		}
	}
}

// TestSpeeds writes and reads a topology of each width and speed: the links have them.
func TestSpeeds(t *testing.T) {
	for _, want := range []string{"1xSDR", "4xDDR", "4xQDR", "4xFDR10", "8xFDR", "12xEDR", "2xHDR", "4xNDR", "4xXDR"} {
		text := "devid=0xc738\nSwitch 2 \"S\"\n[1] \"H1\"[1] # \"4xSDR\" lid 4 " + want + " s=4 w=2 v=4\n[2] \"H2\"[1] # " + want + "\n\ndevid=0x1003\nCa 1 \"H1\"\n\ndevid=0x1003\nCa 1 \"H2\"\n"
		for range 2 {
			top, err := madtest.ParseTopology(strings.NewReader(text))
			if err != nil {
				t.Fatal(want, err)
			}
			host := slices.IndexFunc(top.Nodes, func(n madtest.NodeSpec) bool { return n.Type == mad.NodeCA })
			_, c := openSubnet(t, top, top.Nodes[host].Name)
			f, err := c.Discover(t.Context(), &fabric.DiscoverOptions{MlnxExt: true})
			if err != nil || len(f.Problems) > 0 || len(f.Nodes) != 3 {
				t.Fatal(want, len(f.Nodes), err, f.Problems)
			}
			for _, n := range f.Nodes {
				for i := 1; n.Port(i) != nil; i++ {
					if got := n.Port(i).SpeedName(); got != want {
						t.Errorf("%s port %d is %s, not %s", n.Description, i, got, want)
					}
				}
			}
			var b strings.Builder
			if err := f.WriteTopology(&b, &fabric.TopologyOptions{Full: true}); err != nil {
				t.Fatal(err)
			}
			text = b.String()
		}
	}
}

// reachable returns the nodes that links connect with a node, and the number of those links.
func reachable(from *madtest.Node) (found map[verbs.GUID]bool, links int) {
	found = map[verbs.GUID]bool{from.Info().NodeGUID: true}
	for queue := []*madtest.Node{from}; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		for i := 1; n.Port(i) != nil; i++ {
			p := n.Port(i)
			if p.Peer() == nil || p.Info().PhysLinkState != verbs.PhysLinkUp || n.Info().Type != mad.NodeSwitch && n != from {
				continue
			}
			peer := p.Peer().Node()
			if n.Info().Type == mad.NodeSwitch && (peer.Info().Type != mad.NodeSwitch || p.GUID() < p.Peer().GUID()) {
				links++
			}
			if guid := peer.Info().NodeGUID; !found[guid] {
				found[guid] = true
				queue = append(queue, peer)
			}
		}
	}
	return found, links
}

// TestDiscoverModel unplugs and plugs random cables. A discovery meanwhile must end and find only links
// with two ends. A discovery afterwards must find exactly the reachable nodes.
func TestDiscoverModel(t *testing.T) {
	top, err := madtest.FatTree(6, 2)
	if err != nil {
		t.Fatal(err)
	}
	s, err := madtest.NewSubnet(top)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartSM("h1"); err != nil {
		t.Fatal(err)
	}
	port, err := s.Open("h1", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	// Nodes answer at once unless a link on the route is down.
	c := fabric.NewClient(port, &fabric.Config{Retry: mad.Retry{Timeout: time.Millisecond, Tries: 1}})
	defer c.Close()
	var cables []*madtest.Port
	for _, n := range s.Nodes() {
		for i := 1; n.Info().Type == mad.NodeSwitch && n.Port(i) != nil; i++ {
			if n.Port(i).Peer() != nil {
				cables = append(cables, n.Port(i))
			}
		}
	}
	random := rand.New(rand.NewPCG(5, 6))
	change := func() {
		if p := cables[random.IntN(len(cables))]; random.IntN(3) == 0 {
			p.Unplug()
		} else {
			p.Plug()
		}
	}
	for round := range 60 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if f, err := c.Discover(t.Context(), &fabric.DiscoverOptions{InFlight: 4}); err == nil {
				check(t, f)
			}
		}()
		for range 20 {
			change()
		}
		<-done
		f, err := c.Discover(t.Context(), &fabric.DiscoverOptions{InFlight: 4})
		if err != nil || len(f.Problems) > 0 {
			t.Fatalf("round %d: %v, %v", round, err, f.Problems)
		}
		check(t, f)
		want, links := reachable(s.Node("h1"))
		got := 0
		for _, n := range f.Nodes {
			if !want[n.Info.NodeGUID] {
				t.Errorf("round %d: %s isn't reachable", round, n.Description)
			}
			for _, p := range n.Ports {
				if p != nil && p.Remote != nil && n.Info.Type == mad.NodeSwitch && (p.Remote.Node.Info.Type != mad.NodeSwitch || p.GUID < p.Remote.GUID) {
					got++
				}
			}
		}
		if len(f.Nodes) != len(want) || got != links {
			t.Errorf("round %d: %d nodes of %d, %d links of %d", round, len(f.Nodes), len(want), got, links)
		}
	}
}

// TestDiscoverMemory bounds the memory of a discovery of 11,271 nodes, and that of their subnet.
func TestDiscoverMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it walks 11,271 nodes")
	}
	top, err := madtest.FatTree(34, 3)
	if err != nil {
		t.Fatal(err)
	}
	live := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	s, c := openSubnet(t, top, "h1")
	subnet := live() - before
	f, err := c.Discover(t.Context(), &fabric.DiscoverOptions{InFlight: 8})
	if err != nil || len(f.Nodes) != len(top.Nodes) {
		t.Fatal(len(f.Nodes), err)
	}
	found := live() - before - subnet
	t.Logf("the subnet has %d kB, the fabric %d kB", subnet>>10, found>>10)
	if subnet > 40<<20 || found > 40<<20 {
		t.Errorf("the subnet has %d kB, the fabric %d kB", subnet>>10, found>>10)
	}
	runtime.KeepAlive(f)
	runtime.KeepAlive(s)
}

// TestLoopback discovers an adapter whose port is connected to itself.
func TestLoopback(t *testing.T) {
	end := madtest.End{Node: "h1", Port: 1}
	_, c := openSubnet(t, &madtest.Topology{
		Nodes: []madtest.NodeSpec{{Name: "h1", Type: mad.NodeCA, Ports: 1}}, Cables: []madtest.Cable{{A: end, B: end}},
	}, "h1")
	f, err := c.Discover(t.Context(), nil)
	if err != nil || len(f.Nodes) != 1 || len(f.Problems) != 1 || !errors.Is(f.Problems[0], fabric.ErrLinkConflict) {
		t.Errorf("%v, %v", f, err)
	}
}

// TestCongestion changes the settings of congestion control, with and without the CC_Key.
func TestCongestion(t *testing.T) {
	top, err := madtest.FatTree(4, 2)
	if err != nil {
		t.Fatal(err)
	}
	s, c := openSubnet(t, top, "h1")
	if err := s.StartSM("h1"); err != nil {
		t.Fatal(err)
	}
	defer s.StopSM()
	ctx := t.Context()
	sw, ca := c.GSI(s.Node("leaf1").Port(0).Info().LID), c.GSI(s.Node("h3").Port(1).Info().LID)
	roundTrip := func(to mad.Addr, modifier uint32, set, get mad.Attribute) {
		t.Helper()
		if err := c.SetCongestion(ctx, to, modifier, set); err != nil {
			t.Error(err)
			return
		}
		if err := c.GetCongestion(ctx, to, modifier, get); err != nil || !reflect.DeepEqual(get, set) {
			t.Errorf("%+v, not %+v: %v", get, set, err)
		}
	}
	roundTrip(sw, 0, &mad.SwitchCongestionSetting{ControlMap: 1, Threshold: 15, MarkingRate: 3}, new(mad.SwitchCongestionSetting))
	roundTrip(sw, 0, &mad.SwitchPortCongestionSetting{Ports: [48]mad.SwitchPortCongestion{2: {Valid: true, MarkingRate: 5}}}, new(mad.SwitchPortCongestionSetting))
	roundTrip(ca, 0, &mad.CACongestionSetting{ControlMap: 3, Entries: [16]mad.CACongestionEntry{1: {Timer: 150, Increase: 1}}}, new(mad.CACongestionSetting))
	roundTrip(ca, 1, &mad.CongestionControlTable{Limit: 127, Entries: [64]mad.CongestionControlEntry{63: {Shift: 3, Multiplier: 1<<14 - 1}}}, new(mad.CongestionControlTable))
	if err := c.GetCongestion(ctx, ca, 0, new(mad.SwitchCongestionSetting)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a switch's setting of an adapter: %v", err)
	}
	for _, bad := range []struct {
		to       mad.Addr
		modifier uint32
		a        mad.Attribute
	}{{sw, 1, new(mad.SwitchPortCongestionSetting)}, {ca, 2, new(mad.CongestionControlTable)}} {
		var status *mad.StatusError
		if err := c.GetCongestion(ctx, bad.to, bad.modifier, bad.a); !errors.As(err, &status) || status.Status != mad.StatusInvalid {
			t.Errorf("block %d: %v", bad.modifier, err)
		}
	}
	if err := c.SetCongestion(ctx, ca, 0, &mad.CongestionKeyInfo{Key: 9, Violations: 1}); err != nil {
		t.Fatal(err)
	}
	port := c.Port()
	keyed := fabric.NewClient(port, &fabric.Config{CCKey: 9})
	defer keyed.Close()
	wrong := fabric.NewClient(port, &fabric.Config{CCKey: 8, Retry: mad.Retry{Timeout: time.Millisecond, Tries: 1}})
	defer wrong.Close()
	if err := wrong.SetCongestion(ctx, ca, 0, new(mad.CACongestionSetting)); !errors.Is(err, mad.ErrTimeout) {
		t.Errorf("a wrong CC_Key: %v", err)
	}
	var info mad.CongestionKeyInfo
	if err := keyed.GetCongestion(ctx, ca, 0, &info); err != nil || info != (mad.CongestionKeyInfo{Key: 9, Violations: 1}) {
		t.Errorf("%+v, %v", info, err)
	}
	stranger := fabric.NewClient(port, nil)
	defer stranger.Close()
	if err := stranger.GetCongestion(ctx, ca, 0, &info); err != nil || info != (mad.CongestionKeyInfo{Violations: 1}) {
		t.Errorf("without the key: %+v, %v", info, err)
	}
	if cpi, err := keyed.ClassPortInfo(ctx, sw, mad.ClassCC); err != nil || cpi.ClassVersion != 2 {
		t.Errorf("%+v, %v", cpi, err)
	}
}

// TestMultiPath asks for the paths between several ports.
func TestMultiPath(t *testing.T) {
	top, err := madtest.FatTree(4, 2)
	if err != nil {
		t.Fatal(err)
	}
	s, c := openSubnet(t, top, "h1")
	if err := s.StartSM("h1"); err != nil {
		t.Fatal(err)
	}
	defer s.StopSM()
	ctx := t.Context()
	gid := func(name string) (g verbs.GID) {
		binary.BigEndian.PutUint64(g[:], 0xfe80<<48)
		binary.BigEndian.PutUint64(g[8:], uint64(s.Node(name).Port(1).GUID()))
		return g
	}
	sources, destinations := []verbs.GID{gid("h1"), gid("h2")}, []verbs.GID{gid("h3"), gid("h4"), gid("h5")}
	paths, err := c.MultiPath(ctx, mad.MaskMultiPathNumPaths, mad.MultiPathRecord{NumPaths: 1}, sources, destinations)
	if err != nil || len(paths) != 6 {
		t.Fatalf("%d paths, %v", len(paths), err)
	}
	for i, p := range paths {
		want := mad.PathRecord{SGID: sources[i/3], DGID: destinations[i%3]}
		if err := c.QueryOne(ctx, mad.MaskPathSGID|mad.MaskPathDGID, &want); err != nil || p != want {
			t.Errorf("path %d is %+v, not %+v: %v", i, p, want, err)
		}
	}
	if paths, err := c.MultiPath(ctx, mad.MaskMultiPathPKey, mad.MultiPathRecord{PKey: 0x1234}, sources, destinations); err != nil || len(paths) != 0 {
		t.Errorf("%d paths of an unknown P_Key, %v", len(paths), err)
	}
	for _, test := range []struct {
		mask                  mad.ComponentMask
		sources, destinations []verbs.GID
		want                  mad.Status
	}{
		{0, sources, nil, mad.StatusSAInvalidRequest},
		{0, nil, destinations, mad.StatusSAInvalidRequest},
		{0, sources, []verbs.GID{{15: 1}}, mad.StatusSAInvalidGID},
		{mad.MaskMultiPathNumPaths, sources, destinations, mad.StatusSAInvalidRequest},
	} {
		var status *mad.StatusError
		if _, err := c.MultiPath(ctx, test.mask, mad.MultiPathRecord{}, test.sources, test.destinations); !errors.As(err, &status) || status.Status != test.want {
			t.Errorf("%d sources, %d destinations: %v", len(test.sources), len(test.destinations), err)
		}
	}
	if _, err := c.MultiPath(ctx, 0, mad.MultiPathRecord{}, make([]verbs.GID, 6), make([]verbs.GID, 6)); err == nil || !strings.Contains(err.Error(), "11 GIDs") {
		t.Errorf("12 GIDs: %v", err)
	}
	to, err := c.SM()
	if err != nil {
		t.Fatal(err)
	}
	// The counts of GIDs claim more than the record holds.
	d := mad.New(mad.ClassSA, mad.GetMulti, mad.AttrMultiPathRecord, 0)
	d.SetComponentMask(mad.MaskMultiPathSources | mad.MaskMultiPathDestinations)
	d.SetRMPPFlags(mad.RMPPActive)
	d.Data()[15], d.Data()[16] = 255, 255
	m, err := c.Do(ctx, &mad.Message{Addr: to, Data: d})
	if err != nil || m.Data.Status() != mad.StatusSAInvalidRequest {
		t.Errorf("510 GIDs: %v", err)
	}
}

// TestWriteRecords checks that a member of a multicast group is in the tables of subnet administration
// until its record is deleted.
func TestWriteRecords(t *testing.T) {
	top, err := madtest.FatTree(4, 2)
	if err != nil {
		t.Fatal(err)
	}
	s, c := openSubnet(t, top, "h1")
	if err := s.StartSM("h1"); err != nil {
		t.Fatal(err)
	}
	defer s.StopSM()
	p, err := s.Open("h1", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	attr, err := p.Attr()
	if err != nil {
		t.Fatal(err)
	}
	group := mad.MCMemberRecord{MGID: verbs.GID{0: 0xff, 1: 0x12, 2: 0x40, 3: 0x1b, 15: 9}, PortGID: attr.GIDs[0], JoinState: 1, QKey: 1, PKey: 0xffff}
	const mask = mad.MaskMulticastMGID | mad.MaskMulticastPortGID | mad.MaskMulticastJoinState
	member := group
	if err := c.SetRecord(t.Context(), mask|mad.MaskMulticastQKey|mad.MaskMulticastPKey, &member); err != nil || member.MLID == 0 {
		t.Fatalf("%+v, %v", member, err)
	}
	found := group
	if err := c.QueryOne(t.Context(), mad.MaskMulticastMGID, &found); err != nil || found.MLID != member.MLID {
		t.Errorf("%+v, %v", found, err)
	}
	if err := c.DeleteRecord(t.Context(), mask, &group); err != nil {
		t.Fatal(err)
	}
	var status *mad.StatusError
	if err := c.QueryOne(t.Context(), mad.MaskMulticastMGID, &found); !errors.As(err, &status) || status.Status != mad.StatusSANoRecords {
		t.Errorf("after the member has left: %v", err)
	}
}

// TestSlots reads slots from descriptions of switches, as nodes choose them.
func TestSlots(t *testing.T) {
	for description, want := range map[string]string{
		"MF0;host:SX6536/L05/U1":           "SX6536 Line 5 Chip 1",
		"MF0;host:SX6536/S18:board/U2 end": "SX6536 Spine 18 Chip 2",
		"MF0;host:\x1b[2J/L36/U0255":       " [2J Line 36 Chip 255",
		"MF0;h:/L1/U":                      "Line 1 Chip 0",
		"MF0;/L1/U1":                       "",
		"MF0;h:/L1/U256":                   "Line 1 Chip 0", // no number of a byte
		"MF0;h:x/L256/U1":                  "",
		"MF0;h:x/L0/U1":                    "",
		"MF0;h:x/L37/U1":                   "",
		"MF0;h:x/S19/U1":                   "",
		"MF0;h:x/X1/U1":                    "",
		"MF0;h:x//U1":                      "",
		"MF0;h:x/L1":                       "",
		"MF0;h:x/L1/1":                     "",
		"MF0;":                             "",
		"host:x/L1/U1":                     "",
	} {
		top, err := madtest.FatTree(4, 2)
		if err != nil {
			t.Fatal(err)
		}
		leaves := 0
		for i := range top.Nodes {
			if n := &top.Nodes[i]; n.Type == mad.NodeSwitch {
				n.SystemGUID = 7
				if leaves++; leaves == 1 {
					n.VendorID, n.DeviceID, n.Description = 0x2c9, 0xbd36, description
				}
			}
		}
		_, c := openSubnet(t, top, "h1")
		f, err := c.Discover(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := f.WriteTopology(&text, &fabric.TopologyOptions{Chassis: true}); err != nil {
			t.Fatal(err)
		}
		found := ""
		for line := range strings.Lines(text.String()) {
			if _, slot, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t# "); ok && strings.HasPrefix(line, "switchguid=") {
				found += slot
			}
		}
		if found != want {
			t.Errorf("%q: %q, not %q", description, found, want)
		}
	}
}
