package driver

import (
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/rss"
)

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
