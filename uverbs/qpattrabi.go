package uverbs

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

func qpToABI(a *verbs.QPAttr) abi.IbUverbsModifyQp {
	return abi.IbUverbsModifyQp{
		Dest: pathToABI(&a.AH), AltDest: pathToABI(&a.AltAH), Qkey: a.QKey, RqPsn: a.RQPSN, SqPsn: a.SQPSN,
		DestQpNum: a.DestQPN, QpAccessFlags: uint32(a.Access), PkeyIndex: uint16(a.PKeyIndex), AltPkeyIndex: uint16(a.AltPKeyIndex),
		QpState: uint8(a.State), CurQpState: uint8(a.CurState), PathMtu: uint8(a.PathMTU),
		PathMigState: uint8(a.PathMigState), EnSqdAsyncNotify: boolByte(a.EnSQDAsyncNotify),
		MaxRdAtomic: a.MaxRDAtomic, MaxDestRdAtomic: a.MaxDestRDAtomic, MinRnrTimer: a.MinRNRTimer,
		PortNum: uint8(a.Port), Timeout: a.Timeout, RetryCnt: a.RetryCnt, RnrRetry: a.RNRRetry,
		AltPortNum: uint8(a.AltPort), AltTimeout: a.AltTimeout,
	}
}

func newQPAttr(r *abi.IbUverbsQueryQpResp) *verbs.QPAttr {
	return &verbs.QPAttr{
		State: verbs.QPState(r.QpState), CurState: verbs.QPState(r.CurQpState), PathMTU: verbs.MTU(r.PathMtu),
		QKey: r.Qkey, RQPSN: r.RqPsn, SQPSN: r.SqPsn, DestQPN: r.DestQpNum, Access: verbs.Access(r.QpAccessFlags),
		AH: ahFromABI(&r.Dest), PKeyIndex: uint32(r.PkeyIndex), MaxRDAtomic: r.MaxRdAtomic, MaxDestRDAtomic: r.MaxDestRdAtomic,
		MinRNRTimer: r.MinRnrTimer, Port: uint32(r.PortNum), Timeout: r.Timeout, RetryCnt: r.RetryCnt, RNRRetry: r.RnrRetry,
		SQDraining: r.SqDraining != 0, AltAH: ahFromABI(&r.AltDest), AltPKeyIndex: uint32(r.AltPkeyIndex),
		AltPort: uint32(r.AltPortNum), AltTimeout: r.AltTimeout, PathMigState: verbs.PathMigState(r.PathMigState),
		Cap: verbs.QPCap{MaxSendWR: r.MaxSendWr, MaxRecvWR: r.MaxRecvWr, MaxSendSGE: r.MaxSendSge, MaxRecvSGE: r.MaxRecvSge,
			MaxInline: r.MaxInlineData},
	}
}
