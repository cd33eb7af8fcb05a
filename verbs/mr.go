package verbs

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// Access says what may be done with a memory region, or through a QP; the
// values combine with |. Local reads are always allowed.
//
// C: enum ibv_access_flags
type Access uint32

// A remote write or atomic needs AccessLocalWrite as well.
const (
	AccessLocalWrite   = Access(abi.IB_UVERBS_ACCESS_LOCAL_WRITE)
	AccessRemoteWrite  = Access(abi.IB_UVERBS_ACCESS_REMOTE_WRITE)
	AccessRemoteRead   = Access(abi.IB_UVERBS_ACCESS_REMOTE_READ)
	AccessRemoteAtomic = Access(abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC)
	// AccessMWBind lets memory windows be bound to the region.
	AccessMWBind = Access(abi.IB_UVERBS_ACCESS_MW_BIND)
	// AccessZeroBased has peers count addresses from the start of the region or window.
	AccessZeroBased = Access(abi.IB_UVERBS_ACCESS_ZERO_BASED)
	// AccessOnDemand does not pin the region: the device faults pages in, see
	// uverbs.PD.RegMR. DeviceAttr.ODP tells where it works. The rxe of Linux 7.2 says it
	// does, but corrupts data: it takes each packet to or from the start of a page,
	// wherever in the page it belongs.
	AccessOnDemand = Access(abi.IB_UVERBS_ACCESS_ON_DEMAND)
	// AccessHugeTLB tells a driver that asks for it that the region is of huge
	// pages; most want it left out.
	AccessHugeTLB = Access(abi.IB_UVERBS_ACCESS_HUGETLB)
	// AccessFlushGlobal and AccessFlushPersistent allow OpFlush of that type.
	AccessFlushGlobal     = Access(abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL)
	AccessFlushPersistent = Access(abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT)
	// AccessRelaxedOrdering lets writes become visible out of order; a driver
	// that knows nothing of it ignores it.
	AccessRelaxedOrdering = Access(abi.IB_UVERBS_ACCESS_RELAXED_ORDERING)
)

var accessNames = map[int]string{
	0: "LocalWrite", 1: "RemoteWrite", 2: "RemoteRead", 3: "RemoteAtomic", 4: "MWBind", 5: "ZeroBased", 6: "OnDemand",
	7: "HugeTLB", 8: "FlushGlobal", 9: "FlushPersistent", 20: "RelaxedOrdering",
}

// String names the bits; one without a name prints as a number.
func (a Access) String() string { return bitNames(uint64(a), accessNames) }

// MRAdvice is what uverbs.PD.AdviseMR tells of memory.
//
// C: enum ibv_advise_mr_advice
type MRAdvice uint32

const (
	// MRPrefetch: the device will read the memory.
	MRPrefetch = MRAdvice(abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH)
	// MRPrefetchWrite: the device will write it.
	MRPrefetchWrite = MRAdvice(abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE)
	// MRPrefetchNoFault: as MRPrefetch, but only of what is in memory already.
	MRPrefetchNoFault = MRAdvice(abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
)

func (a MRAdvice) String() string {
	switch a {
	case MRPrefetch:
		return "PREFETCH"
	case MRPrefetchWrite:
		return "PREFETCH_WRITE"
	case MRPrefetchNoFault:
		return "PREFETCH_NO_FAULT"
	}
	return fmt.Sprintf("MRAdvice(%d)", uint32(a))
}

// TPHMemType is a kind of memory.
//
// C: enum ibv_tph_mem_type
type TPHMemType uint8

// The kinds.
const (
	TPHMemVolatile   TPHMemType = iota // C: IBV_TPH_MEM_TYPE_VM
	TPHMemPersistent                   // C: IBV_TPH_MEM_TYPE_PM
)

// MR is a memory region as a work request names it.
type MR interface {
	LKey() uint32
}

// BindMW is what OpBindMW makes of a window.
//
// C: struct ibv_mw_bind_info, with the window and the key
type BindMW struct {
	MW     MW
	RKey   uint32 // the window's key from then on: IncRKey of the one before
	MR     MR     // must have AccessMWBind; nil and a Length of 0 end a type 1 binding
	Addr   uint64 // start of the window, in the region
	Length uint64 // bytes
	Access Access // what the peer may do
}

// MWType tells who chooses a window's key.
//
// C: enum ibv_mw_type
type MWType uint8

const (
	// MWType1 windows are bound with uverbs.MW.Bind only, which chooses the key.
	MWType1 MWType = 1
	// MWType2 windows are bound with OpBindMW to a key that the caller makes with
	// uverbs.IncRKey, and end with OpLocalInv or a peer's OpSendWithInv. On rxe they are
	// to be closed before the QP that they were bound through, and must not be
	// ended when they are not bound: its kernel crashes. OpLocalInv is refused then,
	// as far as is known here; what a peer sends is not.
	MWType2 MWType = 2
)

func (t MWType) String() string { return fmt.Sprintf("type %d", uint8(t)) }

// MW is a memory window as a work request names it.
type MW interface {
	Type() MWType
	RKey() uint32
}
