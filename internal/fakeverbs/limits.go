package fakeverbs

import (
	"encoding/binary"
	"math/bits"

	"github.com/goverbs/goverbs/internal/abi"
)

// What every fake device says of itself.
const (
	CompVectors = 2
	NodeGUID    = 0x020000fffe000001
	Netdev      = 7 // index of the network device behind port 1
	MaxQP       = 64 * 1024
)

// GID is the only entry of the GID table of a device without RoCE. One with RoCE
// has LinkLocalGID in slot 0 and IPv4GID in slot 1.
var (
	GID          = [16]byte{0x02, 0, 0, 0xff, 0xfe, 0, 0, 1}
	LinkLocalGID = [16]byte{0xfe, 0x80, 11: 0xff, 12: 0xfe, 15: 1}
	IPv4GID      = [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 9, 14: 9, 15: 9}
)

const gidEntrySize = 32

// Limits is what a device says of itself.
type Limits struct {
	Device abi.IbUverbsQueryDeviceResp
	Caps   uint64
	Port   abi.IbUverbsQueryPortResp
	GIDs   []abi.IbUverbsGidEntry

	// What no device in software has.
	MaxDM      uint64
	ClockMask  uint64
	ClockKHz   uint64
	RawCaps    uint32
	Moderation abi.IbUverbsCqModerationCaps
	ODP        abi.IbUverbsOdpCaps
	ODPXRC     uint32
}

func BareLimits() Limits {
	const caps = 0x200000
	return Limits{
		Caps: caps,
		Device: abi.IbUverbsQueryDeviceResp{
			NodeGuid: bits.ReverseBytes64(NodeGUID), MaxMrSize: 1<<64 - 1, MaxQp: MaxQP, MaxSge: 6, MaxSgeRd: 1,
			DeviceCapFlags: caps, PhysPortCnt: 1,
		},
		Port: abi.IbUverbsQueryPortResp{
			MaxMsgSz: 1<<31 - 1, GidTblLen: 1, State: 4, MaxMtu: 5, ActiveMtu: 3, PhysState: 5, LinkLayer: 2,
			ActiveWidth: 1, ActiveSpeed: 1,
		},
		GIDs: []abi.IbUverbsGidEntry{GIDEntry(GID, 0, 0)},
	}
}

// GIDEntry is a slot of port 1's GID table; typ is 2 for RoCE v2.
func GIDEntry(gid [16]byte, index, typ uint32) abi.IbUverbsGidEntry {
	return abi.IbUverbsGidEntry{
		Gid:      [2]uint64{binary.NativeEndian.Uint64(gid[:]), binary.NativeEndian.Uint64(gid[8:])},
		GidIndex: index, GidType: typ, PortNum: 1, NetdevIfindex: Netdev,
	}
}
