package uverbs

import (
	"fmt"
	"strings"
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
