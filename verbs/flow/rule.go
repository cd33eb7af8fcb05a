package flow

import (
	"github.com/goverbs/goverbs/internal/abi"
)

// Type is the kind of a flow rule.
//
// C: enum ibv_flow_attr_type
type Type uint32

// The types of rules.
const (
	Normal           Type = 0 // packets that match the rule's specs
	AllDefault       Type = 1 // all packets that no other rule matches
	MulticastDefault Type = 2 // all multicast packets that no other rule matches
	Sniffer          Type = 3 // a copy of all packets
)

// Flags are options of a flow rule; the values combine with |.
//
// C: enum ibv_flow_flags
type Flags uint32

const (
	DontTrap Flags = 1 << 1 // other rules may match the packet, too
	Egress   Flags = 1 << 2 // the rule is for outgoing packets
)

// Tag is an action that sets the flow tag in the completions of matching packets.
//
// C: struct ibv_flow_spec_action_tag
type Tag uint32

// AppendSpec implements [Spec].
func (t Tag) AppendSpec(b []byte) []byte {
	v := [2]uint32{uint32(t), 0}
	return appendSpec(b, specTag, false, abi.Bytes(&v))
}

// Drop is an action that drops matching packets.
//
// C: struct ibv_flow_spec_action_drop
type Drop struct{}

// AppendSpec implements [Spec].
func (Drop) AppendSpec(b []byte) []byte { return appendSpec(b, specDrop, false) }

// CounterKind is the unit of a counter.
//
// C: enum ibv_counter_description
type CounterKind uint32

// The kinds of counters.
const (
	CounterPackets CounterKind = 0
	CounterBytes   CounterKind = 1
)
