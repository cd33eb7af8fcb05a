package driver

import "github.com/goverbs/goverbs/verbs"

// CreateSRQ is a request for an SRQ.
type CreateSRQ struct {
	Call
	// MaxWR and MaxSGE have the requested values, and after Do those that the kernel granted.
	MaxWR, MaxSGE uint32
	// PD is the data that AllocPD returned.
	PD any
	// Handle is set by Do.
	Handle uint32
	// Lock is the SRQ's lock. A CQ that frees entries of the SRQ while it is polled must take
	// it. The holder of Lock must not take the lock of a CQ.
	Lock *Lock
}

// CreateXRCSRQ is a request for an SRQ of an XRC domain.
type CreateXRCSRQ struct {
	CreateSRQ
	// CQ is the provider's CQ on which the SRQ's receives complete.
	CQ CQ
	// Num is the number by which senders name the SRQ. Do sets it.
	Num uint32
}

// CreateXRCTarget is a request for a target QP of an XRC domain. The QP may be a [NoQueues], and may
// implement [QPModifier] and [ECESetter].
type CreateXRCTarget struct{ Call }

// SRQ is the user-space half of an SRQ. It may implement [SRQModifier] and [Destroyer]. PostRecv and
// Modify are called with the SRQ's Lock held.
type SRQ interface {
	PostRecv(wrs []verbs.RecvWR) (int, error)
}

// SRQModifier is an SRQ that takes part when it is modified. Modify carries out r, continues with
// the new queue, which holds the receives that were not used yet, and frees the old memory. If it
// fails after Do, the queue is unusable. An SRQ without Modify has a limit but can't be resized.
type SRQModifier interface{ Modify(r *ModifySRQ) error }

// ModifySRQ is a request to change the size of an SRQ or, if MaxWR is 0, its limit.
type ModifySRQ struct {
	Call
	// MaxWR is the requested number of receives, and after Do the number that was granted.
	MaxWR uint32
	Limit uint32
}
