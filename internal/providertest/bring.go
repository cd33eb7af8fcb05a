package providertest

import (
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// Bring moves a QP to RTS.
func Bring(t testing.TB, qp *uverbs.QP) {
	t.Helper()
	const common = uverbs.QPAttrState | uverbs.QPAttrPKeyIndex | uverbs.QPAttrPort
	init := uverbs.QPAttr{State: uverbs.QPStateInit, Port: 1, Access: uverbs.AccessRemoteWrite}
	rtr := uverbs.QPAttr{State: uverbs.QPStateRTR, PathMTU: uverbs.MTU1024, AH: uverbs.AHAttr{Port: 1, Global: true, SGIDIndex: 1}}
	masks := map[uverbs.QPType][3]uverbs.QPAttrMask{
		uverbs.QPTypeRC: {common | uverbs.QPAttrAccess,
			uverbs.QPAttrState | uverbs.QPAttrAV | uverbs.QPAttrPathMTU | uverbs.QPAttrDestQPN | uverbs.QPAttrRQPSN | uverbs.QPAttrMaxDestRDAtomic | uverbs.QPAttrMinRNRTimer,
			uverbs.QPAttrState | uverbs.QPAttrTimeout | uverbs.QPAttrRetryCnt | uverbs.QPAttrRNRRetry | uverbs.QPAttrSQPSN | uverbs.QPAttrMaxQPRDAtomic},
		uverbs.QPTypeUC: {common | uverbs.QPAttrAccess,
			uverbs.QPAttrState | uverbs.QPAttrAV | uverbs.QPAttrPathMTU | uverbs.QPAttrDestQPN | uverbs.QPAttrRQPSN,
			uverbs.QPAttrState | uverbs.QPAttrSQPSN},
		uverbs.QPTypeXRCInitiator: {common | uverbs.QPAttrAccess,
			uverbs.QPAttrState | uverbs.QPAttrAV | uverbs.QPAttrPathMTU | uverbs.QPAttrDestQPN | uverbs.QPAttrRQPSN,
			uverbs.QPAttrState | uverbs.QPAttrTimeout | uverbs.QPAttrRetryCnt | uverbs.QPAttrRNRRetry | uverbs.QPAttrSQPSN | uverbs.QPAttrMaxQPRDAtomic},
		uverbs.QPTypeXRCTarget: {common | uverbs.QPAttrAccess,
			uverbs.QPAttrState | uverbs.QPAttrAV | uverbs.QPAttrPathMTU | uverbs.QPAttrDestQPN | uverbs.QPAttrRQPSN | uverbs.QPAttrMaxDestRDAtomic | uverbs.QPAttrMinRNRTimer,
			uverbs.QPAttrState | uverbs.QPAttrTimeout | uverbs.QPAttrSQPSN},
		uverbs.QPTypeUD:        {common | uverbs.QPAttrQKey, uverbs.QPAttrState, uverbs.QPAttrState | uverbs.QPAttrSQPSN},
		uverbs.QPTypeRawPacket: {uverbs.QPAttrState | uverbs.QPAttrPort, uverbs.QPAttrState, uverbs.QPAttrState},
	}[qp.Type()]
	for i, attr := range []uverbs.QPAttr{init, rtr, {State: uverbs.QPStateRTS}} {
		if err := qp.Modify(&attr, masks[i]); err != nil {
			t.Fatal(err)
		}
	}
}
