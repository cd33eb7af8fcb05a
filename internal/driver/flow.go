package driver

import "github.com/goverbs/goverbs/verbs/flow"

// CreateFlow asks a provider for a flow rule. Everything that the kernel's core knows of it is
// said already; the provider adds what the counters count.
type CreateFlow struct {
	Call
	Counters []CounterPoint
}

// CounterPoint says what one of the numbers counts that a program reads of counters.
//
// C: struct ibv_counter_attach_attr
type CounterPoint struct {
	Counts flow.CounterKind
	Index  uint32 // of the number
}
