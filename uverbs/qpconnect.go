package uverbs

import (
	"cmp"

	"github.com/goverbs/goverbs/verbs"
)

// Init takes a QP from RESET to INIT, where receives can be posted, with Port (0
// means 1), PKeyIndex, and Access or, of a UD QP, QKey of attr. A raw packet QP takes
// its Port only. It is the first of two steps of a connection made by hand, of which
// [QP.Connect] is the second; package rdmacm takes both by itself.
func (qp *QP) Init(attr *verbs.QPAttr) error {
	a := connecting(attr)
	a.State = verbs.QPStateInit
	mask := verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
	switch qp.typ {
	case verbs.QPTypeUD:
		mask = mask&^verbs.QPAttrAccess | verbs.QPAttrQKey
	case verbs.QPTypeRawPacket:
		mask = verbs.QPAttrState | verbs.QPAttrPort
	}
	return qp.Modify(a, mask)
}

// Connect takes a QP from INIT to RTR and to RTS. It needs the peer's QP number
// (DestQPN), the address of its port (AH, of which Port may be left out), the
// number of its first packet (RQPSN) and that of the own one (SQPSN, which the
// peer has as RQPSN). A UD QP needs SQPSN only, and a raw packet QP nothing: attr may
// be nil. The peers tell each other by other means, such as a TCP connection, between Init and Connect.
//
// A field that is 0 gets a usual value: PathMTU the port's active MTU (which must be
// the peer's as well), MaxRDAtomic and MaxDestRDAtomic 1, MinRNRTimer 12 (0.64
// ms), Timeout 14 (67 ms), RetryCnt 7, RNRRetry 7 (retry forever). Use Modify to set 0.
// When the second move fails the QP is in RTR.
//
// C: the two calls of ibv_modify_qp that every program has
func (qp *QP) Connect(attr *verbs.QPAttr) error {
	a := connecting(attr)
	rtr, rts := verbs.QPAttrState, verbs.QPAttrState|verbs.QPAttrSQPSN
	if qp.typ == verbs.QPTypeRC || qp.typ == verbs.QPTypeXRCTarget { // answers requests
		rtr |= verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrMinRNRTimer
		rts |= verbs.QPAttrTimeout
	}
	if qp.typ == verbs.QPTypeRC || qp.typ == verbs.QPTypeXRCInitiator { // sends them until they are answered
		rts |= verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic
	}
	switch qp.typ {
	case verbs.QPTypeUD:
	case verbs.QPTypeRawPacket:
		rts = verbs.QPAttrState
	default:
		rtr |= verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
		if err := qp.defaultMTU(a); err != nil {
			return err
		}
	}
	a.State = verbs.QPStateRTR
	if err := qp.Modify(a, rtr); err != nil {
		return err
	}
	a.State = verbs.QPStateRTS
	return qp.Modify(a, rts)
}

func (qp *QP) defaultMTU(a *verbs.QPAttr) error {
	if a.PathMTU != 0 {
		return nil
	}
	port, err := qp.dev.QueryPort(a.AH.Port)
	if err != nil {
		return err
	}
	a.PathMTU = port.ActiveMTU
	return nil
}

// connecting is attr with the usual values for what is 0.
func connecting(attr *verbs.QPAttr) *verbs.QPAttr {
	var a verbs.QPAttr
	if attr != nil {
		a = *attr
	}
	for _, d := range []struct {
		field *uint8
		usual uint8
	}{
		{&a.MaxRDAtomic, 1}, {&a.MaxDestRDAtomic, 1}, {&a.MinRNRTimer, 12}, {&a.Timeout, 14},
		{&a.RetryCnt, 7}, {&a.RNRRetry, 7},
	} {
		if *d.field == 0 {
			*d.field = d.usual
		}
	}
	a.Port = cmp.Or(a.Port, 1)
	a.AH.Port = cmp.Or(a.AH.Port, a.Port)
	return &a
}
