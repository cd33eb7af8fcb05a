package rdmacm

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// qpAttr leaves out alternate paths, which uverbs doesn't have.
func qpAttr(w *abi.IbUverbsQpAttr) *uverbs.QPAttr {
	return &uverbs.QPAttr{
		State:           uverbs.QPState(w.QpState),
		CurState:        uverbs.QPState(w.CurQpState),
		PathMTU:         uverbs.MTU(w.PathMtu),
		QKey:            w.Qkey,
		RQPSN:           w.RqPsn,
		SQPSN:           w.SqPsn,
		DestQPN:         w.DestQpNum,
		Access:          uverbs.Access(w.QpAccessFlags),
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

func ahAttr(w *abi.IbUverbsAhAttr) uverbs.AHAttr {
	return uverbs.AHAttr{
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
func nodeGUID(raw uint64) uverbs.GUID {
	return uverbs.GUID(binary.BigEndian.Uint64(binary.NativeEndian.AppendUint64(nil, raw)))
}
