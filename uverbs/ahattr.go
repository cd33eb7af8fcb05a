package uverbs

import "github.com/goverbs/goverbs/internal/abi"

// AHAttr is an address: the way to a port.
//
// C: struct ibv_ah_attr
type AHAttr struct {
	DGID         GID
	FlowLabel    uint32
	SGIDIndex    uint8
	HopLimit     uint8
	TrafficClass uint8
	Global       bool // the GID fields are in use
	DLID         uint16
	SL           uint8
	SrcPathBits  uint8
	StaticRate   uint8
	Port         uint8
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
