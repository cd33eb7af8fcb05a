package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

func pathToABI(a *verbs.AHAttr) abi.IbUverbsQpDest {
	return abi.IbUverbsQpDest{
		Dgid: a.DGID, FlowLabel: a.FlowLabel, Dlid: a.DLID, SgidIndex: uint8(a.SGIDIndex), HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, Sl: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate,
		IsGlobal: boolByte(a.Global), PortNum: uint8(a.Port),
	}
}

func ahFromABI(d *abi.IbUverbsQpDest) verbs.AHAttr {
	return verbs.AHAttr{
		DGID: d.Dgid, FlowLabel: d.FlowLabel, DLID: d.Dlid, SGIDIndex: uint32(d.SgidIndex), HopLimit: d.HopLimit,
		TrafficClass: d.TrafficClass, SL: d.Sl, SrcPathBits: d.SrcPathBits, StaticRate: d.StaticRate,
		Global: d.IsGlobal != 0, Port: uint32(d.PortNum),
	}
}

func ahToABI(a *verbs.AHAttr) abi.IbUverbsAhAttr {
	return abi.IbUverbsAhAttr{
		Grh: abi.IbUverbsGlobalRoute{Dgid: a.DGID, FlowLabel: a.FlowLabel, SgidIndex: uint8(a.SGIDIndex),
			HopLimit: a.HopLimit, TrafficClass: a.TrafficClass},
		Dlid: a.DLID, Sl: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate,
		IsGlobal: boolByte(a.Global), PortNum: uint8(a.Port),
	}
}

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
