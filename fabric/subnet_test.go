package fabric_test

import (
	"testing"

	"github.com/goverbs/goverbs/fabric"
	"github.com/goverbs/goverbs/madtest"
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

// BenchmarkDiscover walks a fat tree of 11,271 nodes, with the answers of its nodes.
func BenchmarkDiscover(b *testing.B) {
	top, err := madtest.FatTree(34, 3)
	if err != nil {
		b.Fatal(err)
	}
	_, c := openSubnet(b, top, "h1")
	b.ReportAllocs()
	for b.Loop() {
		f, err := c.Discover(b.Context(), fabric.DiscoverOptions{InFlight: 8})
		if err != nil || len(f.Nodes) != len(top.Nodes) || len(f.Problems) != 0 {
			b.Fatalf("%d of %d nodes, %v, %v", len(f.Nodes), len(top.Nodes), err, f.Problems)
		}
	}
}
