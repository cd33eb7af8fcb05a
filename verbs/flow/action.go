package flow

import "github.com/goverbs/goverbs/internal/abi"

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
