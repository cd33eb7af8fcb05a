package flow

// Type is what a flow rule is for.
//
// C: enum ibv_flow_attr_type
type Type uint32

// Beside a normal rule, which its specs describe, there are rules for what no other takes.
const (
	Normal           Type = 0
	AllDefault       Type = 1 // all packets that no rule takes
	MulticastDefault Type = 2 // all multicast packets that no rule takes
	Sniffer          Type = 3 // a copy of all packets
)

// Flags refine a flow rule; the values combine with |.
//
// C: enum ibv_flow_flags
type Flags uint32

const (
	DontTrap Flags = 1 << 1 // other rules get the packet, too
	Egress   Flags = 1 << 2 // of packets that leave
)
