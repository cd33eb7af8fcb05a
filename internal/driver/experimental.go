package driver

import (
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

// AllocDM asks a provider for memory of the device's own.
type AllocDM struct {
	Call
	Length   uint64 // bytes
	LogAlign uint32 // its address is a multiple of 2 to the power of this
	// Handle is known after Do.
	Handle uint32
}

// ImportDM asks a provider to map memory of the device's that another process of the
// descriptor allocated.
type ImportDM struct {
	Memory
	Handle uint32
	Length uint64 // bytes; the provider sets it
}

// DM is how a program reaches memory of a device. Both methods may be called concurrently,
// and only with bytes that are inside. They refuse what the device can't do, such as an offset
// that is no multiple of 4, with EINVAL.
type DM interface {
	CopyTo(offset uint64, b []byte) error
	CopyFrom(b []byte, offset uint64) error
}

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

// CreateWQ asks a provider for a WQ, which is a receive queue.
type CreateWQ struct {
	Call
	// MaxWR and MaxSGE are as asked for, and after Do as granted.
	MaxWR, MaxSGE uint32
	Flags         rss.WQFlags
	// PD is what AllocPD returned.
	PD any
	// CQ is the provider's own, on which the WQ's receives complete.
	CQ CQ
	// Handle and Num are known after Do.
	Handle, Num uint32
}

// WQ is the user-space half of a WQ. Its methods, and that of [WQModifier], are called with
// the WQ held.
type WQ interface {
	PostRecv(wrs []verbs.RecvWR) (int, error)
}

// WQModifier is a WQ that takes part when it is modified, or whose modification has private
// bytes. Modify carries out r.
type WQModifier interface{ Modify(r *ModifyWQ) error }

// ModifyWQ asks a provider to modify a WQ. From and To are the same when the state stays.
type ModifyWQ struct {
	Call
	From, To rss.WQState
}

// CreateRSSQP asks a provider for a QP that deals packets out to the WQs of a table. It has
// no queues of its own.
type CreateRSSQP struct {
	Call
	Type  verbs.QPType
	Flags verbs.QPFlags
	Hash  rss.Hash
	// PD is what AllocPD returned.
	PD any
	// Handle and Num are known after Do.
	Handle, Num uint32
}
