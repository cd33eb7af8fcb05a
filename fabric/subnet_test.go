package fabric_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/goverbs/goverbs/fabric"
	"github.com/goverbs/goverbs/mad"
	"github.com/goverbs/goverbs/madtest"
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
	c := fabric.NewClient(port, fabric.Config{})
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
		f, err := c.Discover(b.Context(), fabric.DiscoverOptions{InFlight: 8})
		if err != nil || len(f.Nodes) != nodes || len(f.Problems) != 0 {
			b.Fatalf("%d of %d nodes, %v, %v", len(f.Nodes), nodes, err, f.Problems)
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
	c := fabric.NewClient(port, fabric.Config{Retry: mad.Retry{Timeout: time.Millisecond, Tries: 1}})
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
			if f, err := c.Discover(t.Context(), fabric.DiscoverOptions{InFlight: 4}); err == nil {
				check(t, f)
			}
		}()
		for range 20 {
			change()
		}
		<-done
		f, err := c.Discover(t.Context(), fabric.DiscoverOptions{InFlight: 4})
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
	f, err := c.Discover(t.Context(), fabric.DiscoverOptions{InFlight: 8})
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
	f, err := c.Discover(t.Context(), fabric.DiscoverOptions{})
	if err != nil || len(f.Nodes) != 1 || len(f.Problems) != 1 || !errors.Is(f.Problems[0], fabric.ErrLinkConflict) {
		t.Errorf("%v, %v", f, err)
	}
}
