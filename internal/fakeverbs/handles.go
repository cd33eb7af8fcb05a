package fakeverbs

import (
	"maps"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// kinds are the objects' names here.
var kinds = map[uint64]string{
	abi.UVERBS_OBJECT_PD: "PD", abi.UVERBS_OBJECT_CQ: "CQ", abi.UVERBS_OBJECT_QP: "QP", abi.UVERBS_OBJECT_SRQ: "SRQ",
	abi.UVERBS_OBJECT_AH: "AH", abi.UVERBS_OBJECT_MR: "MR", abi.UVERBS_OBJECT_MW: "MW", abi.UVERBS_OBJECT_FLOW: "FLOW",
	abi.UVERBS_OBJECT_XRCD: "XRCD", abi.UVERBS_OBJECT_RWQ_IND_TBL: "IND_TBL", abi.UVERBS_OBJECT_WQ: "WQ", abi.UVERBS_OBJECT_DM: "DM",
	abi.UVERBS_OBJECT_COUNTERS: "COUNTERS",
}

// infoHandles counts as many handles as there is room for.
func (k *Kernel) infoHandles(r *ioctl.Request) error {
	kind, _ := r.Value(abi.UVERBS_ATTR_INFO_OBJECT_ID)
	list, ok := r.Bytes(abi.UVERBS_ATTR_INFO_HANDLES_LIST)
	if !ok || len(list)%4 != 0 {
		return syscall.EINVAL
	}
	n := uint32(0)
	for _, h := range slices.Sorted(maps.Keys(k.objects)) {
		if k.objects[h].kind == kinds[kind] && len(list) >= 4 {
			copy(list, abi.Bytes(&h))
			list = list[4:]
			n++
		}
	}
	if _, ok := r.Bytes(abi.UVERBS_ATTR_INFO_TOTAL_HANDLES); !ok {
		return syscall.ENOENT
	}
	return Answer(r, abi.UVERBS_ATTR_INFO_TOTAL_HANDLES, n)
}
