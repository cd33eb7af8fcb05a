package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

// The device's syndromes.
const (
	erdmaGeneral     = 1
	erdmaRecvFormat  = 2
	erdmaRecvKey     = 3 // the receiving end, as 4 to 7: outside, not allowed, another PD, wraps around
	erdmaRecvAddr    = 4
	erdmaRecvRight   = 5
	erdmaRecvPD      = 6
	erdmaRecvWrap    = 7
	erdmaSendFormat  = 8
	erdmaNoReads     = 9
	erdmaSendKey     = 10 // the sending end, as 11 to 14
	erdmaSendAddr    = 11
	erdmaSendRight   = 12
	erdmaSendPD      = 13
	erdmaSendWrap    = 14
	erdmaFlushed     = 15
	erdmaRetriesGone = 16
)

var erdmaSendSyndromes = map[uint32]uint8{
	abi.IB_WC_LOC_QP_OP_ERR: erdmaSendFormat, abi.IB_WC_LOC_PROT_ERR: erdmaSendKey, abi.IB_WC_LOC_ACCESS_ERR: erdmaSendKey,
	abi.IB_WC_REM_ACCESS_ERR: erdmaRecvKey, abi.IB_WC_WR_FLUSH_ERR: erdmaFlushed, abi.IB_WC_RETRY_EXC_ERR: erdmaRetriesGone,
}

var erdmaRecvSyndromes = map[uint32]uint8{
	abi.IB_WC_LOC_QP_OP_ERR: erdmaRecvFormat, abi.IB_WC_LOC_PROT_ERR: erdmaRecvKey, abi.IB_WC_LOC_ACCESS_ERR: erdmaRecvKey,
	abi.IB_WC_LOC_LEN_ERR: erdmaRecvAddr, abi.IB_WC_REM_ACCESS_ERR: erdmaRecvRight, abi.IB_WC_WR_FLUSH_ERR: erdmaFlushed,
}

// syndrome is how the device tells that a send ended with a status of the verbs. Of bad
// memory of its own it knows what is wrong.
func (q *ERDMAQP) syndrome(w *Work, status uint32) uint8 {
	switch status {
	case abi.IB_WC_SUCCESS:
		return 0
	case abi.IB_WC_LOC_PROT_ERR, abi.IB_WC_LOC_ACCESS_ERR:
		for _, s := range w.SGL {
			if why := q.wrongWith(s, w.writesHere()); why != 0 {
				return why
			}
		}
	}
	if s, ok := erdmaSendSyndromes[status]; ok {
		return s
	}
	return erdmaGeneral
}

// writesHere tells whether a send has the device write to local memory.
func (w *Work) writesHere() bool {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_RDMA_READ_WITH_INV,
		abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		return true
	}
	return false
}

// wrongWith is 0 for an SGE that is good.
func (q *ERDMAQP) wrongWith(s SGE, write bool) uint8 {
	for _, o := range q.qp.k.objects {
		mr, ok := o.body.(*MR)
		switch {
		case !ok || mr.Key != s.LKey:
		case s.Addr+uint64(s.Length) < s.Addr:
			return erdmaSendWrap
		case s.Addr < mr.Start || s.Addr-mr.Start+uint64(s.Length) > mr.Length:
			return erdmaSendAddr
		case write && mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0:
			return erdmaSendRight
		case mr.PD != q.qp.PD:
			return erdmaSendPD
		default:
			return 0
		}
	}
	return erdmaSendKey
}
