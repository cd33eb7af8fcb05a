package flow

import (
	"github.com/goverbs/goverbs/internal/abi"
)

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

// Tag has the completions of what matches carry a number.
//
// C: struct ibv_flow_spec_action_tag
type Tag uint32

// AppendSpec implements [Spec].
func (t Tag) AppendSpec(b []byte) []byte {
	v := [2]uint32{uint32(t), 0}
	return appendSpec(b, specTag, false, abi.Bytes(&v))
}

// Drop drops what matches.
//
// C: struct ibv_flow_spec_action_drop
type Drop struct{}

// AppendSpec implements [Spec].
func (Drop) AppendSpec(b []byte) []byte { return appendSpec(b, specDrop, false) }

// CounterKind is what is counted of a flow.
//
// C: enum ibv_counter_description
type CounterKind uint32

// What can be counted.
const (
	CounterPackets CounterKind = 0
	CounterBytes   CounterKind = 1
)
