package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

func (k *Kernel) getContext(r *ioctl.Request) error {
	if k.context {
		return syscall.EINVAL
	}
	if err := k.insist("GET_CONTEXT", r); err != nil {
		return err
	}
	if err := k.model.context(r); err != nil {
		return err
	}
	n := uint32(CompVectors)
	ioctl.Answer(r, abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &n)
	k.context = true
	return nil
}

func (k *Kernel) queryPort(r *ioctl.Request) error {
	if port, _ := r.Value(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM); port != 1 {
		return syscall.EINVAL
	}
	return answer(r, abi.UVERBS_ATTR_QUERY_PORT_RESP, abi.IbUverbsQueryPortRespEx{LegacyResp: k.model.limits().port})
}

func (k *Kernel) queryGIDTable(r *ioctl.Request) error {
	const id = abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES
	room, _ := r.Bytes(id)
	size, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE)
	if size != gidEntrySize || len(room) < gidEntrySize*len(k.gids) {
		return syscall.EINVAL
	}
	for i := range k.gids {
		room = room[copy(room, abi.Bytes(&k.gids[i])):]
	}
	return answer(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, uint64(len(k.gids)))
}

func (k *Kernel) queryGIDEntry(r *ioctl.Request) error {
	port, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT)
	index, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)
	if port != 1 {
		return syscall.EINVAL
	}
	e, err := k.gid(uint32(index))
	if err != nil {
		return err
	}
	return answer(r, abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, *e)
}

// gid finds a slot of the GID table, as rdma_get_gid_attr does.
func (k *Kernel) gid(index uint32) (*abi.IbUverbsGidEntry, error) {
	if index >= k.model.limits().port.GidTblLen {
		return nil, syscall.EINVAL
	}
	for i := range k.gids {
		if k.gids[i].GidIndex == index {
			return &k.gids[i], nil
		}
	}
	return nil, syscall.ENODATA
}

func (k *Kernel) queryDevice(r *ioctl.Request) error {
	l := k.model.limits()
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 {
		return syscall.EINVAL
	}
	return respond(r, abi.IbUverbsExQueryDeviceResp{Base: l.device, ResponseLength: 304, DeviceCapFlagsEx: l.caps})
}
