package driver

import (
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
	"github.com/goverbs/goverbs/verbs/rss"
)

// AllocDM is a request for device memory.
type AllocDM struct {
	Call
	Length   uint64 // bytes
	LogAlign uint32 // binary logarithm of the alignment
	// Handle is set by Do.
	Handle uint32
}

// ImportDM is a request to map device memory that another process with the same descriptor
// allocated.
type ImportDM struct {
	Memory
	Handle uint32
	Length uint64 // bytes; the provider sets it
}

// DM gives a program access to device memory. Both methods may be called concurrently. The caller
// checks the bounds. The methods return EINVAL for accesses that the device can't do, such as an
// offset that is not a multiple of 4.
type DM interface {
	CopyTo(offset uint64, b []byte) error
	CopyFrom(b []byte, offset uint64) error
}

// CreateFlow is a request for a flow rule. The request contains everything that the kernel's core
// needs. The provider adds the kinds of the counters. Counters is empty if another flow rule uses
// the counters already, since their kinds are fixed then.
type CreateFlow struct {
	Call
	Counters []CounterPoint
}

// CounterPoint says which kind of counter has an index.
//
// C: struct ibv_counter_attach_attr
type CounterPoint struct {
	Counts flow.CounterKind
	Index  uint32
}

// CreateWQ is a request for a WQ, which is a receive queue.
type CreateWQ struct {
	Call
	// MaxWR and MaxSGE have the requested values, and after Do those that the kernel granted.
	MaxWR, MaxSGE uint32
	Flags         rss.WQFlags
	// PD is the data that AllocPD returned.
	PD any
	// CQ is the provider's CQ on which the WQ's receives complete.
	CQ CQ
	// Handle and Num are set by Do.
	Handle, Num uint32
}

// WQ is the user-space half of a WQ. It may implement [WQModifier] and [Destroyer]. PostRecv and
// Modify are called with the WQ's lock held.
type WQ interface {
	PostRecv(wrs []verbs.RecvWR) (int, error)
}

// WQModifier is a WQ that takes part when it is modified, or whose modification has private
// bytes. Modify carries out r.
type WQModifier interface{ Modify(r *ModifyWQ) error }

// ModifyWQ is a request to modify a WQ. From and To are equal if the state does not change.
type ModifyWQ struct {
	Call
	From, To rss.WQState
}

// CreateRSSQP is a request for a QP that distributes packets among the WQs of a table. It has no
// queues of its own.
type CreateRSSQP struct {
	Call
	Type  verbs.QPType
	Flags verbs.QPFlags
	Hash  rss.Hash
	// PD is the data that AllocPD returned.
	PD any
	// Handle and Num are set by Do.
	Handle, Num uint32
}
