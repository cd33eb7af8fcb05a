package uverbs

import "github.com/goverbs/goverbs/internal/abi"

// AHAttr is an address: the way to a port. On RoCE it has a Global part; DLID,
// SrcPathBits and StaticRate are InfiniBand's.
//
// C: struct ibv_ah_attr
type AHAttr struct {
	DGID         GID    // whom to send to
	FlowLabel    uint32 // 20 bits
	SGIDIndex    uint8  // the own GID, see Device.ChooseGID
	HopLimit     uint8  // of multicast, where 0 gets nowhere; of unicast RoCE the kernel's route has it
	TrafficClass uint8  // IP's DSCP and ECN bits
	Global       bool   // the fields above are in use
	DLID         uint16
	SL           uint8 // 4 bits
	SrcPathBits  uint8
	StaticRate   uint8 // 0 means the port's
	Port         uint8 // the own one, from 1
}

func (a *AHAttr) toABI() abi.IbUverbsQpDest {
	return abi.IbUverbsQpDest{
		Dgid: a.DGID, FlowLabel: a.FlowLabel, Dlid: a.DLID, SgidIndex: a.SGIDIndex, HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, Sl: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate,
		IsGlobal: boolByte(a.Global), PortNum: a.Port,
	}
}

func ahFromABI(d *abi.IbUverbsQpDest) AHAttr {
	return AHAttr{
		DGID: d.Dgid, FlowLabel: d.FlowLabel, DLID: d.Dlid, SGIDIndex: d.SgidIndex, HopLimit: d.HopLimit,
		TrafficClass: d.TrafficClass, SL: d.Sl, SrcPathBits: d.SrcPathBits, StaticRate: d.StaticRate,
		Global: d.IsGlobal != 0, Port: d.PortNum,
	}
}

func (a *AHAttr) toAHABI() abi.IbUverbsAhAttr {
	return abi.IbUverbsAhAttr{
		Grh: abi.IbUverbsGlobalRoute{Dgid: a.DGID, FlowLabel: a.FlowLabel, SgidIndex: a.SGIDIndex,
			HopLimit: a.HopLimit, TrafficClass: a.TrafficClass},
		Dlid: a.DLID, Sl: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate,
		IsGlobal: boolByte(a.Global), PortNum: a.Port,
	}
}

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
