package uverbs

import "github.com/goverbs/goverbs/internal/abi"

// Access says what may be done with a memory region, or through a QP; the
// values combine with |. Local reads are always allowed.
//
// C: enum ibv_access_flags
type Access uint32

// A remote write needs AccessLocalWrite as well.
const (
	AccessLocalWrite      = Access(abi.IB_UVERBS_ACCESS_LOCAL_WRITE)
	AccessRemoteWrite     = Access(abi.IB_UVERBS_ACCESS_REMOTE_WRITE)
	AccessRemoteRead      = Access(abi.IB_UVERBS_ACCESS_REMOTE_READ)
	AccessRemoteAtomic    = Access(abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC)
	AccessRelaxedOrdering = Access(abi.IB_UVERBS_ACCESS_RELAXED_ORDERING)
)
