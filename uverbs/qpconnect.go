package uverbs

import "cmp"

// Init takes a QP from RESET to INIT, where receives can be posted, with Port (0
// means 1), PKeyIndex, and Access or, of a UD QP, QKey of attr. A raw packet QP takes
// its Port only. It is the first of two steps of a connection made by hand, of which
// [QP.Connect] is the second; package rdmacm takes both by itself.
func (qp *QP) Init(attr *QPAttr) error {
	a := connecting(attr)
	a.State = QPStateInit
	mask := QPAttrState | QPAttrPKeyIndex | QPAttrPort | QPAttrAccess
	switch qp.typ {
	case QPTypeUD:
		mask = mask&^QPAttrAccess | QPAttrQKey
	case QPTypeRawPacket:
		mask = QPAttrState | QPAttrPort
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
func (qp *QP) Connect(attr *QPAttr) error {
	a := connecting(attr)
	rtr, rts := QPAttrState, QPAttrState|QPAttrSQPSN
	if qp.typ == QPTypeRC || qp.typ == QPTypeXRCTarget { // answers requests
		rtr |= QPAttrMaxDestRDAtomic | QPAttrMinRNRTimer
		rts |= QPAttrTimeout
	}
	if qp.typ == QPTypeRC || qp.typ == QPTypeXRCInitiator { // sends them until they are answered
		rts |= QPAttrTimeout | QPAttrRetryCnt | QPAttrRNRRetry | QPAttrMaxQPRDAtomic
	}
	switch qp.typ {
	case QPTypeUD:
	case QPTypeRawPacket:
		rts = QPAttrState
	default:
		rtr |= QPAttrAV | QPAttrPathMTU | QPAttrDestQPN | QPAttrRQPSN
		if err := qp.defaultMTU(a); err != nil {
			return err
		}
	}
	a.State = QPStateRTR
	if err := qp.Modify(a, rtr); err != nil {
		return err
	}
	a.State = QPStateRTS
	return qp.Modify(a, rts)
}

func (qp *QP) defaultMTU(a *QPAttr) error {
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
func connecting(attr *QPAttr) *QPAttr {
	var a QPAttr
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
