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
	if err := k.Model.Context(r); err != nil {
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
	return Answer(r, abi.UVERBS_ATTR_QUERY_PORT_RESP, abi.IbUverbsQueryPortRespEx{LegacyResp: k.Device.port()})
}

func (k *Kernel) queryGIDTable(r *ioctl.Request) error {
	const id = abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES
	room, _ := r.Bytes(id)
	size, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE)
	gids := k.Device.table()
	if size != gidEntrySize || len(room) < gidEntrySize*len(gids) {
		return syscall.EINVAL
	}
	for i := range gids {
		room = room[copy(room, abi.Bytes(&gids[i])):]
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, uint64(len(gids)))
}

func (k *Kernel) queryGIDEntry(r *ioctl.Request) error {
	port, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT)
	index, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)
	if port != 1 {
		return syscall.EINVAL
	}
	e, err := k.GID(uint32(index))
	if err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, *e)
}

// GID finds a slot of the GID table, as rdma_get_gid_attr does.
func (k *Kernel) GID(index uint32) (*abi.IbUverbsGidEntry, error) {
	if index >= k.Device.Limits.Port.GidTblLen {
		return nil, syscall.EINVAL
	}
	gids := k.Device.table()
	for i := range gids {
		if gids[i].GidIndex == index {
			return &gids[i], nil
		}
	}
	return nil, syscall.ENODATA
}

func (k *Kernel) queryDevice(r *ioctl.Request) error {
	l := k.limits()
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 {
		return syscall.EINVAL
	}
	return respond(r, abi.IbUverbsExQueryDeviceResp{Base: l.Device, ResponseLength: 304, DeviceCapFlagsEx: l.Caps,
		MaxDmSize: l.MaxDM, TimestampMask: l.ClockMask, HcaCoreClock: l.ClockKHz, RawPacketCaps: l.RawCaps, CqModerationCaps: l.Moderation,
		OdpCaps: l.ODP, XrcOdpCaps: l.ODPXRC})
}

// queryDeviceLegacy is the command that libibverbs asks for first of all, to learn whether
// commands go by ioctl.
func (k *Kernel) queryDeviceLegacy(r *ioctl.Request) error {
	return respond(r, k.limits().Device)
}

// limiter is a model whose options change what the device says of itself.
type limiter interface{ AdjustLimits(*Limits) }

func (k *Kernel) limits() Limits {
	l := k.Device.Limits
	l.Device.NodeGuid, l.Device.SysImageGuid = k.Device.NodeGUID, k.Device.NodeGUID
	if m, ok := k.Model.(limiter); ok {
		m.AdjustLimits(&l)
	}
	return l
}
