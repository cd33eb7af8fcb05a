package uverbs

import "github.com/goverbs/goverbs/internal/abi"

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
	// AccessOnDemand does not pin the region: the device faults pages in.
	AccessOnDemand = Access(abi.IB_UVERBS_ACCESS_ON_DEMAND)
	// AccessHugeTLB says that the region is of huge pages.
	AccessHugeTLB = Access(abi.IB_UVERBS_ACCESS_HUGETLB)
	// AccessFlushGlobal and AccessFlushPersistent allow OpFlush of that type.
	AccessFlushGlobal     = Access(abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL)
	AccessFlushPersistent = Access(abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT)
	// AccessRelaxedOrdering lets writes become visible out of order; a driver
	// that knows nothing of it ignores it.
	AccessRelaxedOrdering = Access(abi.IB_UVERBS_ACCESS_RELAXED_ORDERING)
)

// accessHint tells why the kernel might refuse these flags.
func accessHint(access Access) string {
	switch {
	case access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return "remote write and remote atomic need AccessLocalWrite too"
	case access&AccessOnDemand != 0:
		return "the device has no on-demand paging, or not for such a region (DeviceAttr.ODP)"
	case access&(AccessFlushGlobal|AccessFlushPersistent) != 0:
		return "the device has no such flush (DeviceAttr.CapFlags)"
	}
	return ""
}
