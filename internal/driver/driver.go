package driver

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/verbs"
)

// Driver is the user-space half of one kernel driver. A provider's package registers it in init.
type Driver interface {
	// ID returns the kernel driver that the provider belongs to.
	ID() verbs.DriverID
	// ABI returns the range of the driver's uverbs ABI versions that the provider supports.
	ABI() (lowest, highest uint32)
	// Open carries out r (GET_CONTEXT).
	Open(r *Open) (Context, error)
}

// Importer is a Driver that can share a context that another process created. Import carries out r
// (QUERY_CONTEXT).
type Importer interface {
	Import(r *Open) (Context, error)
}

// Context is a provider's view of one open device. Its methods may be called
// concurrently.
//
// It may implement [PDAllocator], [PDImporter], [MRRegistrar], [MWAllocator], [AHCreator],
// [SRQCreator], [XRCCreator], [XRCTargetCreator], [WQCreator], [FlowCreator], [DMAllocator],
// [CompCounterCreator], [NullKeyer], [ClockReader], [AttrExtender], [CQInliner], [Supporter] and
// [Closer]. Without these, PDs, MRs, MWs and flow rules have no private bytes, and AHs, SRQs, XRC,
// WQs, device memory and completion counters are not supported.
type Context interface {
	CreateCQ(r *CreateCQ) (CQ, error)
	CreateQP(r *CreateQP) (QP, error)
}

// PDAllocator is a Context whose PDs have private bytes, or data of the provider. Requests with the
// PD contain the data.
type PDAllocator interface {
	AllocPD(r *AllocPD) (data any, err error)
}

// PDImporter is a Context that can use a PD of another process with the same context. data is like
// that of AllocPD.
type PDImporter interface {
	ImportPD(handle uint32) (data any, err error)
}

// MRRegistrar is a Context whose memory regions have private bytes.
type MRRegistrar interface{ RegMR(r *RegMR) error }

// MWAllocator is a Context whose memory windows have private bytes.
type MWAllocator interface{ AllocMW(r *AllocMW) error }

// AHCreator is a Context that supports address handles. data is what PostSend needs of the address;
// [AHData] returns it. If the handle exists only in user space, CreateAH does not call Do. If data is a
// [Destroyer], its Destroy may keep do, for a handle that other handles need, and call it before the PD
// ends.
type AHCreator interface {
	CreateAH(r *CreateAH) (data any, err error)
}

// NumberedAH is the data of an address handle whose number appears in completions.
type NumberedAH interface{ AHNumber() uint16 }

// AHData returns the data of a work request's address handle, or nil if the handle is nil or closed.
// Package uverbs sets it.
var AHData func(verbs.AH) any

// SRQCreator is a Context that supports shared receive queues.
type SRQCreator interface {
	CreateSRQ(r *CreateSRQ) (SRQ, error)
}

// XRCCreator is a Context that supports XRC. Only such a Context is asked for a QP of type
// QPTypeXRCInitiator, which has neither RecvCQ nor SRQ.
type XRCCreator interface {
	CreateXRCSRQ(r *CreateXRCSRQ) (SRQ, error)
}

// XRCTargetCreator is a Context whose target QPs have private bytes. Other providers take no part in
// target QPs, because these have no queues.
type XRCTargetCreator interface {
	CreateXRCTarget(r *CreateXRCTarget) (QP, error)
}

// WQCreator is a Context that supports WQs, and QPs that distribute packets among them.
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

// CompCounterCreator is a Context whose device has completion counters. It returns the words to which the
// device writes the numbers of successes and of failures. Their memory comes from r.
type CompCounterCreator interface {
	CreateCompCounter(r Call) (successes, failures *atomic.Uint64, err error)
}

// NullKeyer is a Context whose device may have a null key. The device discards data that it writes
// with this key, and reads zeros with it. NullKey returns the key and whether there is one.
type NullKeyer interface{ NullKey() (lkey uint32, ok bool) }

// ClockReader is a Context whose device has a clock that a program can read. Clock returns
// ErrNotSupported if the kernel or the device has none.
type ClockReader interface {
	Clock() (ticks uint64, err error)
}

// AttrExtender is a Context whose kernel driver adds private bytes to a device's attributes.
// ExtendAttr stores what they say in a. AttrBytes returns their number, 0 if this kernel has none.
type AttrExtender interface {
	AttrBytes() int
	ExtendAttr(a *verbs.DeviceAttr, private []byte)
}

// CQInliner is a Context whose device can write short messages to completions. MaxCQInline returns
// the largest number of bytes.
type CQInliner interface{ MaxCQInline() uint32 }

// DMImporter is a Context that maps device memory by a handle.
type DMImporter interface {
	ImportDM(r *ImportDM) (DM, error)
}

// Supporter is a Context that knows which work requests its QPs accept. Supports reports whether
// PostSend of a QP of type t accepts op, and does not refuse it with ErrNotSupported. Without it,
// uverbs.Device.Supports returns false.
type Supporter interface {
	Supports(t verbs.QPType, op verbs.Opcode) bool
}

// Closer is a Context that must release something when the device is closed, before its memory is
// freed. Close is not called for a device that becomes unreachable without being closed.
type Closer interface{ Close() error }

var drivers struct {
	sync.RWMutex
	byID map[verbs.DriverID]Driver
}

// Register registers a driver. It replaces an earlier driver with the same ID for devices that are
// opened from then on.
func Register(d Driver) {
	drivers.Lock()
	defer drivers.Unlock()
	if drivers.byID == nil {
		drivers.byID = make(map[verbs.DriverID]Driver)
	}
	drivers.byID[d.ID()] = d
}

// Lookup returns the driver that is registered for an ID, or nil.
func Lookup(id verbs.DriverID) Driver {
	drivers.RLock()
	defer drivers.RUnlock()
	return drivers.byID[id]
}

// The errors of providers that users never see. Package verbs has the others.
var (
	// ErrQPFailing is returned by posts to a QP that has failed or is about to. The posted
	// work requests will be flushed.
	ErrQPFailing = errors.New("QP is going to the error state")
)
