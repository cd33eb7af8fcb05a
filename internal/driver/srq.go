package driver

import "github.com/goverbs/goverbs/verbs"

// CreateSRQ asks a provider for an SRQ.
type CreateSRQ struct {
	Call
	// MaxWR and MaxSGE are as asked for, and after Do as granted.
	MaxWR, MaxSGE uint32
	// PD is what AllocPD returned.
	PD any
	// Handle is known after Do.
	Handle uint32
	// Lock is the SRQ's. A CQ that frees entries of the SRQ when it is polled takes it
	// meanwhile; whoever holds it may take no CQ.
	Lock *Lock
}

// CreateXRCSRQ asks a provider for an SRQ of an XRC domain.
type CreateXRCSRQ struct {
	CreateSRQ
	// CQ is the provider's own, on which the SRQ's receives complete.
	CQ CQ
	// Num is known after Do: the number by which senders name the SRQ.
	Num uint32
}

// CreateXRCTarget asks a provider for a target QP of an XRC domain.
type CreateXRCTarget struct{ Call }

// SRQ is the user-space half of an SRQ. Its methods, and that of [SRQModifier], are
// called with the SRQ's Lock held.
type SRQ interface {
	PostRecv(wrs []verbs.RecvWR) (int, error)
}

// SRQModifier is an SRQ that takes part when it is modified. Modify carries out r, goes
// on with the queue that comes of it, in which are the receives that were not used
// yet, and frees the memory that it needs no more. An error after Do is the end of the
// queue. Without it, an SRQ has a limit but can't be resized.
type SRQModifier interface{ Modify(r *ModifySRQ) error }

// ModifySRQ asks a provider to change an SRQ: its size, or when MaxWR is 0 its limit.
type ModifySRQ struct {
	Call
	// MaxWR is the number of receives asked for, and after Do granted.
	MaxWR uint32
	Limit uint32
}
