package fakeverbs

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// Driver is a driver that devices may have: an entry of the constructor table. A package
// that models a device registers one.
type Driver struct {
	ID     uint32 // an RDMA_DRIVER_ number
	Limits func() Limits
	New    func(k *Kernel) Model // the model of one opening
	// NewShared makes what all openings of a device share, which [Shared] returns. It may be
	// nil.
	NewShared func() any

	Software      bool   // it has no more than the software drivers of Linux have
	RoCE          bool   // its GIDs are those of RoCE v2, unless it is on InfiniBand
	RateLimits    bool   // its QPs may have a rate limit
	DMABufs       bool   // it registers dma-bufs
	FirstQPN      uint32 // the number of the first QP; 1 if it is 0
	RefusedAccess uint32 // access flags of regions that it does not support

	Methods  map[[2]uint16]*Method // of its own, by object and number
	Own      map[uint16]bool       // attributes of its own, of methods of the core
	Refusals map[string]Refusal    // by call
}

// drivers is the constructor table. It is filled while packages are initialized.
var drivers = make(map[uint32]*Driver)

// Register adds a driver to the table. It panics if the table has one of that number.
func Register(d *Driver) {
	if drivers[d.ID] != nil {
		panic(fmt.Sprintf("fakeverbs: driver %d is registered twice", d.ID))
	}
	drivers[d.ID] = d
}

// driverOf returns the driver of a number. Without an entry in the table it is a driver of
// hardware of which nothing is known.
func driverOf(id uint32) *Driver {
	if d := drivers[id]; d != nil {
		return d
	}
	return &Driver{ID: id, Limits: unknownLimits, New: func(*Kernel) Model { return Bare{} }}
}

func unknownLimits() Limits {
	l := BareLimits()
	l.MaxDM, l.Moderation = 64<<10, abi.IbUverbsCqModerationCaps{MaxCqModerationCount: 1000, MaxCqModerationPeriod: 4000}
	return l
}
