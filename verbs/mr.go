package verbs

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// Access has the access rights and options of a memory region, or the rights of a QP's peer; the
// values combine with |. Local reads are always allowed.
//
// C: enum ibv_access_flags
type Access uint32

// AccessRemoteWrite and AccessRemoteAtomic require AccessLocalWrite.
const (
	AccessLocalWrite   = Access(abi.IB_UVERBS_ACCESS_LOCAL_WRITE)
	AccessRemoteWrite  = Access(abi.IB_UVERBS_ACCESS_REMOTE_WRITE)
	AccessRemoteRead   = Access(abi.IB_UVERBS_ACCESS_REMOTE_READ)
	AccessRemoteAtomic = Access(abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC)
	// AccessMWBind allows memory windows on the region.
	AccessMWBind = Access(abi.IB_UVERBS_ACCESS_MW_BIND)
	// AccessZeroBased makes addresses relative to the start of the region or window.
	AccessZeroBased = Access(abi.IB_UVERBS_ACCESS_ZERO_BASED)
	// AccessOnDemand does not pin the region: the device faults pages in, see
	// uverbs.PD.RegMR. DeviceAttr.ODP reports whether a device supports it. The rxe of Linux
	// 7.2 claims support but corrupts data: it copies each packet to or from the start of a
	// page, wherever in the page the packet belongs.
	AccessOnDemand = Access(abi.IB_UVERBS_ACCESS_ON_DEMAND)
	// AccessHugeTLB declares that the region consists of huge pages. Few drivers need it, and
	// most refuse it.
	AccessHugeTLB = Access(abi.IB_UVERBS_ACCESS_HUGETLB)
	// AccessFlushGlobal and AccessFlushPersistent allow OpFlush of that type.
	AccessFlushGlobal     = Access(abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL)
	AccessFlushPersistent = Access(abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT)
	// AccessRelaxedOrdering lets writes become visible out of order. Drivers that do not know
	// the flag ignore it.
	AccessRelaxedOrdering = Access(abi.IB_UVERBS_ACCESS_RELAXED_ORDERING)
)

var accessNames = map[int]string{
	0: "LocalWrite", 1: "RemoteWrite", 2: "RemoteRead", 3: "RemoteAtomic", 4: "MWBind", 5: "ZeroBased", 6: "OnDemand",
	7: "HugeTLB", 8: "FlushGlobal", 9: "FlushPersistent", 20: "RelaxedOrdering",
}

// String returns the names of the bits. Bits without a name print as a number.
func (a Access) String() string { return bitNames(uint64(a), accessNames) }

// MRAdvice is the advice that uverbs.PD.AdviseMR gives.
//
// C: enum ibv_advise_mr_advice
type MRAdvice uint32

const (
	// MRPrefetch means that the device will read the memory.
	MRPrefetch = MRAdvice(abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH)
	// MRPrefetchWrite means that the device will write it.
	MRPrefetchWrite = MRAdvice(abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE)
	// MRPrefetchNoFault is like MRPrefetch, but only for pages that are in memory already.
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

// TPHMemType is a kind of memory for TLP processing hints.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: enum ibv_tph_mem_type
type TPHMemType uint8

// The kinds.
const (
	TPHMemVolatile   TPHMemType = iota // C: IBV_TPH_MEM_TYPE_VM
	TPHMemPersistent                   // C: IBV_TPH_MEM_TYPE_PM
)

// MR is a memory region in a work request.
type MR interface {
	LKey() uint32
}

// BindMW has the arguments of OpBindMW.
//
// C: struct ibv_mw_bind_info, with the window and the key
type BindMW struct {
	MW     MW
	RKey   uint32 // the window's new key: uverbs.IncRKey of the old one
	MR     MR     // must have AccessMWBind; nil and a Length of 0 end a type 1 binding
	Addr   uint64 // start of the window, an address in the region
	Length uint64 // bytes
	Access Access // rights of the peer
}

// MWType is the type of a memory window.
//
// C: enum ibv_mw_type
type MWType uint8

const (
	// MWType1 windows are bound only with uverbs.MW.Bind, which chooses the key.
	MWType1 MWType = 1
	// MWType2 windows are bound with OpBindMW to a key that the caller gets from
	// uverbs.IncRKey. They are invalidated with OpLocalInv or a peer's OpSendWithInv. On rxe,
	// close them before the QP through which they were bound, and don't invalidate them
	// unless they are bound: the kernel would crash. Package uverbs refuses an OpLocalInv of a
	// window that it knows to be unbound, but can't stop a peer's OpSendWithInv.
	MWType2 MWType = 2
)

func (t MWType) String() string { return fmt.Sprintf("type %d", uint8(t)) }

// MW is a memory window in a work request.
type MW interface {
	Type() MWType
	RKey() uint32
}
