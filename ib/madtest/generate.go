package madtest

import (
	"fmt"

	"github.com/goverbs/goverbs/ib/mad"
)

// FatTree returns a fat tree with full bisection bandwidth, whose switches have radix ports each. With
// two levels it has radix²/2 hosts, radix leaves and radix/2 spines. With three levels it has radix³/4
// hosts in radix pods. The radix must be even and at most 64.
//
// Switches are named leaf1, agg1, spine1 and so on, hosts h1 and so on. Hosts have one port.
func FatTree(radix, levels int) (*Topology, error) {
	if radix < 2 || radix > 64 || radix%2 != 0 {
		return nil, failed("generate", "fat tree", "invalid radix %d: expected an even number from 2 to 64", radix)
	}
	half := radix / 2
	t := new(Topology)
	switch levels {
	case 2:
		t.add(mad.NodeSwitch, "spine", half, radix)
		t.add(mad.NodeSwitch, "leaf", radix, radix)
		for leaf := range radix {
			for spine := range half {
				t.connect("leaf", leaf, half+spine+1, "spine", spine, leaf+1)
			}
		}
	case 3:
		t.add(mad.NodeSwitch, "spine", half*half, radix)
		t.add(mad.NodeSwitch, "agg", radix*half, radix)
		t.add(mad.NodeSwitch, "leaf", radix*half, radix)
		for pod := range radix {
			for i := range half {
				for j := range half {
					t.connect("leaf", pod*half+i, half+j+1, "agg", pod*half+j, i+1)
					t.connect("agg", pod*half+i, half+j+1, "spine", i*half+j, pod+1)
				}
			}
		}
	default:
		return nil, failed("generate", "fat tree", "invalid number of levels %d: expected 2 or 3", levels)
	}
	leaves := radix
	if levels == 3 {
		leaves = radix * half
	}
	t.add(mad.NodeCA, "h", leaves*half, 1)
	for h := range leaves * half {
		t.connect("h", h, 1, "leaf", h/half, h%half+1)
	}
	return t, nil
}

// Dragonfly returns a dragonfly topology. The switches of a group are fully connected, and one cable
// connects each pair of groups. Each switch has the given number of hosts, which are named h1 and so on.
func Dragonfly(groups, switches, hosts int) (*Topology, error) {
	global := 0
	if switches > 0 {
		global = (groups - 1 + switches - 1) / switches // cables to other groups per switch
	}
	ports := hosts + switches - 1 + global
	switch {
	case groups < 1 || switches < 1 || hosts < 1:
		return nil, failed("generate", "dragonfly", "%d groups of %d switches with %d hosts: all must be positive", groups, switches, hosts)
	case ports < 1 || ports > 254:
		return nil, failed("generate", "dragonfly", "a switch would have %d ports, not 1 to 254", ports)
	case groups*switches*(hosts+1) > maxNodes:
		return nil, failed("generate", "dragonfly", "more than %d nodes", maxNodes)
	}
	t := new(Topology)
	t.add(mad.NodeSwitch, "switch", groups*switches, ports)
	t.add(mad.NodeCA, "h", groups*switches*hosts, 1)
	for h := range groups * switches * hosts {
		t.connect("h", h, 1, "switch", h/hosts, h%hosts+1)
	}
	for g := range groups {
		for i := range switches {
			for j := i + 1; j < switches; j++ {
				t.connect("switch", g*switches+i, hosts+j, "switch", g*switches+j, hosts+i+1)
			}
		}
		for other := g + 1; other < groups; other++ {
			// Switch k/global has the cable to the k-th other group.
			k, back := other-1, g
			t.connect("switch", g*switches+k/global, hosts+switches+k%global, "switch", other*switches+back/global, hosts+switches+back%global)
		}
	}
	return t, nil
}

func (t *Topology) add(typ mad.NodeType, name string, count, ports int) {
	for i := range count {
		t.Nodes = append(t.Nodes, NodeSpec{Name: fmt.Sprintf("%s%d", name, i+1), Type: typ, Ports: ports})
	}
}

func (t *Topology) connect(a string, i, port int, b string, j, other int) {
	t.Cables = append(t.Cables, Cable{End{fmt.Sprintf("%s%d", a, i+1), port}, End{fmt.Sprintf("%s%d", b, j+1), other}})
}
