package providertest

import (
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Bring moves a QP to RTS.
func Bring(t testing.TB, qp *uverbs.QP) {
	t.Helper()
	const common = verbs.QPAttrState | verbs.QPAttrPKeyIndex | verbs.QPAttrPort
	init := verbs.QPAttr{State: verbs.QPStateInit, Port: 1, Access: verbs.AccessRemoteWrite}
	rtr := verbs.QPAttr{State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, AH: verbs.AHAttr{Port: 1, Global: true, SGIDIndex: 1}}
	masks := map[verbs.QPType][3]verbs.QPAttrMask{
		verbs.QPTypeRC: {common | verbs.QPAttrAccess,
			verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN | verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrMinRNRTimer,
			verbs.QPAttrState | verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrSQPSN | verbs.QPAttrMaxQPRDAtomic},
		verbs.QPTypeUC: {common | verbs.QPAttrAccess,
			verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN,
			verbs.QPAttrState | verbs.QPAttrSQPSN},
		verbs.QPTypeXRCInitiator: {common | verbs.QPAttrAccess,
			verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN,
			verbs.QPAttrState | verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrSQPSN | verbs.QPAttrMaxQPRDAtomic},
		verbs.QPTypeXRCTarget: {common | verbs.QPAttrAccess,
			verbs.QPAttrState | verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN | verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrMinRNRTimer,
			verbs.QPAttrState | verbs.QPAttrTimeout | verbs.QPAttrSQPSN},
		verbs.QPTypeUD:        {common | verbs.QPAttrQKey, verbs.QPAttrState, verbs.QPAttrState | verbs.QPAttrSQPSN},
		verbs.QPTypeRawPacket: {verbs.QPAttrState | verbs.QPAttrPort, verbs.QPAttrState, verbs.QPAttrState},
	}[qp.Type()]
	for i, attr := range []verbs.QPAttr{init, rtr, {State: verbs.QPStateRTS}} {
		if err := qp.Modify(&attr, masks[i]); err != nil {
			t.Fatal(err)
		}
	}
}
