package fakeverbs

import (
	"encoding/binary"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// What every fake device says of itself.
const (
	CompVectors = 2
	NodeGUID    = 0x020000fffe000001
	Netdev      = 7 // index of the network device behind port 1
	MaxQP       = 64 * 1024
)

// GID is the only entry of the GID table.
var GID = [16]byte{0x02, 0, 0, 0xff, 0xfe, 0, 0, 1}

func (k *Kernel) getContext(r *ioctl.Request) error {
	if k.context {
		return syscall.EINVAL
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
	return answer(r, abi.UVERBS_ATTR_QUERY_PORT_RESP, abi.IbUverbsQueryPortRespEx{
		LegacyResp: abi.IbUverbsQueryPortResp{
			MaxMsgSz: 1<<31 - 1, GidTblLen: 1, State: 4, MaxMtu: 5, ActiveMtu: 3, PhysState: 5, LinkLayer: 2,
			ActiveWidth: 1, ActiveSpeed: 1,
		},
	})
}

func gidEntry() abi.IbUverbsGidEntry {
	e := abi.IbUverbsGidEntry{PortNum: 1, NetdevIfindex: Netdev}
	e.Gid = [2]uint64{binary.NativeEndian.Uint64(GID[:]), binary.NativeEndian.Uint64(GID[8:])}
	return e
}

func (k *Kernel) queryGIDTable(r *ioctl.Request) error {
	if size, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE); size != 32 {
		return syscall.EINVAL
	}
	if err := answer(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, gidEntry()); err != nil {
		return err
	}
	return answer(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, uint64(1))
}

func (k *Kernel) queryGIDEntry(r *ioctl.Request) error {
	port, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT)
	index, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)
	switch {
	case port != 1:
		return syscall.EINVAL
	case index != 0:
		return syscall.ENODATA
	}
	return answer(r, abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, gidEntry())
}

func (k *Kernel) queryDevice(r *ioctl.Request) error {
	return respond(r, abi.IbUverbsExQueryDeviceResp{
		Base: abi.IbUverbsQueryDeviceResp{
			NodeGuid: bits.ReverseBytes64(NodeGUID), MaxMrSize: 1<<64 - 1, MaxQp: MaxQP, MaxSge: 6, MaxSgeRd: 1,
			DeviceCapFlags: 0x200000, PhysPortCnt: 1,
		},
		ResponseLength: 304, DeviceCapFlagsEx: 0x200000,
	})
}
