package uverbs

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
)

// QPAttr is the state of a QP, as far as a mask says.
//
// C: struct ibv_qp_attr
type QPAttr struct {
	State, CurState QPState
	PathMTU         MTU
	QKey            uint32
	RQPSN, SQPSN    uint32 // 24 bits
	DestQPN         uint32 // 24 bits
	Access          Access // what the peer may do
	AH              AHAttr // the way to the peer
	PKeyIndex       uint16
	MaxRDAtomic     uint8 // reads and atomics in flight, as initiator
	MaxDestRDAtomic uint8 // and as responder
	MinRNRTimer     uint8 // IB encoding
	Port            uint8
	Timeout         uint8 // 4.096 µs × 2^Timeout
	RetryCnt        uint8 // 0 to 7
	RNRRetry        uint8 // 0 to 7, 7 means for ever
}

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

// QPAttrMask says which fields of a QPAttr count.
//
// C: enum ibv_qp_attr_mask
type QPAttrMask uint32

// One bit an attribute.
const (
	QPAttrState           QPAttrMask = 1 << 0
	QPAttrCurState        QPAttrMask = 1 << 1
	QPAttrEnSQDAsync      QPAttrMask = 1 << 2
	QPAttrAccess          QPAttrMask = 1 << 3
	QPAttrPKeyIndex       QPAttrMask = 1 << 4
	QPAttrPort            QPAttrMask = 1 << 5
	QPAttrQKey            QPAttrMask = 1 << 6
	QPAttrAV              QPAttrMask = 1 << 7
	QPAttrPathMTU         QPAttrMask = 1 << 8
	QPAttrTimeout         QPAttrMask = 1 << 9
	QPAttrRetryCnt        QPAttrMask = 1 << 10
	QPAttrRNRRetry        QPAttrMask = 1 << 11
	QPAttrRQPSN           QPAttrMask = 1 << 12
	QPAttrMaxQPRDAtomic   QPAttrMask = 1 << 13
	QPAttrAltPath         QPAttrMask = 1 << 14
	QPAttrMinRNRTimer     QPAttrMask = 1 << 15
	QPAttrSQPSN           QPAttrMask = 1 << 16
	QPAttrMaxDestRDAtomic QPAttrMask = 1 << 17
	QPAttrPathMigState    QPAttrMask = 1 << 18
	QPAttrCap             QPAttrMask = 1 << 19
	QPAttrDestQPN         QPAttrMask = 1 << 20
)

var attrNames = [...]string{
	"State", "CurState", "EnSQDAsync", "Access", "PKeyIndex", "Port", "QKey", "AV", "PathMTU", "Timeout", "RetryCnt",
	"RNRRetry", "RQPSN", "MaxQPRDAtomic", "AltPath", "MinRNRTimer", "SQPSN", "MaxDestRDAtomic", "PathMigState", "Cap", "DestQPN",
}

func (m QPAttrMask) String() string {
	var names []string
	for i, name := range attrNames {
		if m&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := m &^ (1<<len(attrNames) - 1); rest != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(rest)))
	}
	return strings.Join(names, "|")
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

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
