package driver

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
	Counts CounterKind
	Index  uint32 // of the number
}

// CounterKind is what is counted of a flow.
//
// C: enum ibv_counter_description
type CounterKind uint32

// What can be counted.
const (
	CounterPackets CounterKind = 0
	CounterBytes   CounterKind = 1
)
