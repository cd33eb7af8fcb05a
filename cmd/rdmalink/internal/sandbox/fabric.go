package sandbox

import (
	"fmt"
	"os"
	"strings"

	"github.com/goverbs/goverbs/mad"
	"github.com/goverbs/goverbs/madtest"
)

// newSubnet builds the subnet of --fabric: a fat tree by its radix and levels, a dragonfly by its
// groups, switches a group and hosts a switch, or the topology of a file. Its own subnet manager, if
// there is to be one, runs on the first node with a link.
func newSubnet(name string, sm bool) (*madtest.Subnet, error) {
	t, err := topology(name)
	if err != nil {
		return nil, fmt.Errorf("--fabric %s: %w", name, err)
	}
	s, err := madtest.NewSubnet(t)
	if err != nil {
		return nil, fmt.Errorf("--fabric %s: %w", name, err)
	}
	if !sm {
		return s, nil
	}
	for _, n := range hostNodes(s) {
		if err = s.StartSM(n.Name()); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("--fabric %s: no adapter is there for a subnet manager: %w", name, err)
}

func topology(name string) (*madtest.Topology, error) {
	var a, b, c int
	kind, numbers, _ := strings.Cut(name, ":")
	switch kind {
	case "fat-tree":
		if _, err := fmt.Sscanf(numbers+" ", "%dx%d ", &a, &b); err != nil {
			return nil, fmt.Errorf("expected fat-tree:RADIXxLEVELS, such as fat-tree:4x2")
		}
		return madtest.FatTree(a, b)
	case "dragonfly":
		if _, err := fmt.Sscanf(numbers+" ", "%dx%dx%d ", &a, &b, &c); err != nil {
			return nil, fmt.Errorf("expected dragonfly:GROUPSxSWITCHESxHOSTS, such as dragonfly:5x4x2")
		}
		return madtest.Dragonfly(a, b, c)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return madtest.ParseTopology(f)
}

// hostNodes returns the nodes on which programs run: those that are no switches, or all, if all are.
func hostNodes(s *madtest.Subnet) []*madtest.Node {
	var hosts []*madtest.Node
	for _, n := range s.Nodes() {
		if n.Info().Type != mad.NodeSwitch {
			hosts = append(hosts, n)
		}
	}
	if len(hosts) == 0 {
		return s.Nodes()
	}
	return hosts
}
