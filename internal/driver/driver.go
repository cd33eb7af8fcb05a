package driver

import (
	"errors"
	"sync"

	"github.com/goverbs/goverbs/verbs"
)

// Driver is the user-space half of one kernel driver. A provider's package registers
// it when it is imported.
type Driver interface {
	// ID is the kernel driver that the provider belongs to.
	ID() verbs.DriverID
	// ABI is the range of the driver's uverbs ABI versions that it speaks.
	ABI() (lowest, highest uint32)
	// Open carries out r (GET_CONTEXT).
	Open(r *Open) (Context, error)
}

// Importer is a Driver that can join a context which another process has made: Import
// carries out r (QUERY_CONTEXT).
type Importer interface {
	Import(r *Open) (Context, error)
}

// Context is a provider's view of one open device. Its methods may be called
// concurrently.
//
// It may also have the methods of [PDAllocator], [PDImporter], [MRRegistrar], [MWAllocator], [AHCreator],
// [SRQCreator], [XRCCreator], [XRCTargetCreator], [WQCreator], [FlowCreator], [DMAllocator], [NullKeyer], [ClockReader], [Supporter] and
// [Closer]. Without them PDs, MRs, MWs and flow rules go without private bytes, and AHs, SRQs,
// XRC, WQs and memory of the device's are not supported.
type Context interface {
	CreateCQ(r *CreateCQ) (CQ, error)
	CreateQP(r *CreateQP) (QP, error)
}

// PDAllocator is a Context whose PDs have private bytes, or data of the provider's.
// Requests that name the PD carry that data.
type PDAllocator interface {
	AllocPD(r *AllocPD) (data any, err error)
}

// PDImporter is a Context that can use a PD of another process with the same context. Data
// is as AllocPD's.
type PDImporter interface {
	ImportPD(handle uint32) (data any, err error)
}

// MRRegistrar is a Context whose memory regions have private bytes.
type MRRegistrar interface{ RegMR(r *RegMR) error }

// MWAllocator is a Context whose memory windows have private bytes.
type MWAllocator interface{ AllocMW(r *AllocMW) error }

// AHCreator is a Context that has address handles. Data is what PostSend will want to
// know of the address; AH.Data returns it. A handle that is made in user space alone
// is made without a call of Do.
type AHCreator interface {
	CreateAH(r *CreateAH) (data any, err error)
}

// SRQCreator is a Context that has shared receive queues.
type SRQCreator interface {
	CreateSRQ(r *CreateSRQ) (SRQ, error)
}

// XRCCreator is a Context that has XRC. No other is asked for a QP of type
// QPTypeXRCInitiator, which has neither RecvCQ nor SRQ.
type XRCCreator interface {
	CreateXRCSRQ(r *CreateXRCSRQ) (SRQ, error)
}

// XRCTargetCreator is a Context whose target QPs have private bytes. They have no queues, so
// other providers take no part in them.
type XRCTargetCreator interface {
	CreateXRCTarget(r *CreateXRCTarget) error
}

// WQCreator is a Context that has WQs, and QPs that deal packets out to them.
type WQCreator interface {
	CreateWQ(r *CreateWQ) (WQ, error)
	CreateRSSQP(r *CreateRSSQP) error
}

// FlowCreator is a Context whose flow rules have private bytes.
type FlowCreator interface{ CreateFlow(r *CreateFlow) error }

// DMAllocator is a Context whose device has memory of its own.
type DMAllocator interface {
	AllocDM(r *AllocDM) (DM, error)
}

// NullKeyer is a Context whose device may have a key of no memory: one whose data it drops, and
// in whose place it sends zeros. NullKey tells it.
type NullKeyer interface{ NullKey() (lkey uint32, ok bool) }

// ClockReader is a Context whose device has a clock that a program can read, in its ticks. Of
// kernels and devices that have none the error is ErrNotSupported.
type ClockReader interface {
	Clock() (ticks uint64, err error)
}

// DMImporter is a Context that maps device memory by a handle.
type DMImporter interface {
	ImportDM(r *ImportDM) (DM, error)
}

// Supporter is a Context that knows which work requests its QPs take. Supports tells
// whether a QP of type t takes op: true for what PostSend carries out, and false for what
// it refuses with ErrNotSupported. Without it package uverbs says false of all.
type Supporter interface {
	Supports(t verbs.QPType, op verbs.Opcode) bool
}

// Closer is a Context that has something to give back when the device is closed,
// before its memory goes. A device that is forgotten instead of closed is given back by
// the kernel alone.
type Closer interface{ Close() error }

var drivers struct {
	sync.RWMutex
	byID map[verbs.DriverID]Driver
}

// Register makes a driver known. A later one of the same ID replaces an earlier one,
// for devices opened from then on.
func Register(d Driver) {
	drivers.Lock()
	defer drivers.Unlock()
	if drivers.byID == nil {
		drivers.byID = make(map[verbs.DriverID]Driver)
	}
	drivers.byID[d.ID()] = d
}

// Lookup returns the driver that was registered for an ID, or nil.
func Lookup(id verbs.DriverID) Driver {
	drivers.RLock()
	defer drivers.RUnlock()
	return drivers.byID[id]
}

// The errors of providers that users never see. Package verbs has the others.
var (
	// ErrQPFailing is how PostSend says that the device is letting go of the QP. What
	// was posted will be flushed.
	ErrQPFailing = errors.New("QP is going to the error state")
)
