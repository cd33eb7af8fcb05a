package netlinkrdma

import "fmt"

// NodeType says what kind of device it is.
//
// C: enum rdma_node_type
type NodeType uint8

// The node types the kernel knows.
const (
	NodeCA          NodeType = 1 // InfiniBand or RoCE adapter
	NodeSwitch      NodeType = 2
	NodeRouter      NodeType = 3
	NodeRNIC        NodeType = 4 // iWARP adapter
	NodeUSNIC       NodeType = 5
	NodeUSNICUDP    NodeType = 6
	NodeUnspecified NodeType = 7 // a driver with a transport of its own, such as efa
)

var nodeTypeNames = [...]string{
	NodeCA: "ca", NodeSwitch: "switch", NodeRouter: "router", NodeRNIC: "rnic",
	NodeUSNIC: "usnic", NodeUSNICUDP: "usnic_udp", NodeUnspecified: "unspecified",
}

// String gives iproute2's word, or NodeType(27) for a value without one.
func (t NodeType) String() string {
	if int(t) < len(nodeTypeNames) && nodeTypeNames[t] != "" {
		return nodeTypeNames[t]
	}
	return fmt.Sprintf("NodeType(%d)", uint8(t))
}
