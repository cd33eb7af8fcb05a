package rdmacm

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// qpAttr leaves out alternate paths, which uverbs doesn't have.
func qpAttr(w *abi.IbUverbsQpAttr) *verbs.QPAttr {
	return &verbs.QPAttr{
		State:           verbs.QPState(w.QpState),
		CurState:        verbs.QPState(w.CurQpState),
		PathMTU:         verbs.MTU(w.PathMtu),
		QKey:            w.Qkey,
		RQPSN:           w.RqPsn,
		SQPSN:           w.SqPsn,
		DestQPN:         w.DestQpNum,
		Access:          verbs.Access(w.QpAccessFlags),
		AH:              ahAttr(&w.AhAttr),
		PKeyIndex:       uint32(w.PkeyIndex),
		MaxRDAtomic:     w.MaxRdAtomic,
		MaxDestRDAtomic: w.MaxDestRdAtomic,
		MinRNRTimer:     w.MinRnrTimer,
		Port:            uint32(w.PortNum),
		Timeout:         w.Timeout,
		RetryCnt:        w.RetryCnt,
		RNRRetry:        w.RnrRetry,
	}
}

func ahAttr(w *abi.IbUverbsAhAttr) verbs.AHAttr {
	return verbs.AHAttr{
		DGID:         w.Grh.Dgid,
		FlowLabel:    w.Grh.FlowLabel,
		SGIDIndex:    uint32(w.Grh.SgidIndex),
		HopLimit:     w.Grh.HopLimit,
		TrafficClass: w.Grh.TrafficClass,
		Global:       w.IsGlobal != 0,
		DLID:         w.Dlid,
		SL:           w.Sl,
		SrcPathBits:  w.SrcPathBits,
		StaticRate:   w.StaticRate,
		Port:         uint32(w.PortNum),
	}
}

// nodeGUID makes a number of what the kernel passes as big endian bytes.
func nodeGUID(raw uint64) verbs.GUID {
	return verbs.GUID(binary.BigEndian.Uint64(binary.NativeEndian.AppendUint64(nil, raw)))
}
