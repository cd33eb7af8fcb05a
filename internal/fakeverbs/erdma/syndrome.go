package erdma

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// The device's syndromes.
const (
	general     = 1
	recvFormat  = 2
	recvKey     = 3 // the receiving end, as 4 to 7: outside, not allowed, another PD, wraps around
	recvAddr    = 4
	recvRight   = 5
	recvPD      = 6
	recvWrap    = 7
	sendFormat  = 8
	noReads     = 9
	sendKey     = 10 // the sending end, as 11 to 14
	sendAddr    = 11
	sendRight   = 12
	sendPD      = 13
	sendWrap    = 14
	flushed     = 15
	retriesGone = 16
)

var sendSyndromes = map[uint32]uint8{
	abi.IB_WC_LOC_QP_OP_ERR: sendFormat, abi.IB_WC_LOC_PROT_ERR: sendKey, abi.IB_WC_LOC_ACCESS_ERR: sendKey,
	abi.IB_WC_REM_ACCESS_ERR: recvKey, abi.IB_WC_WR_FLUSH_ERR: flushed, abi.IB_WC_RETRY_EXC_ERR: retriesGone,
}

var recvSyndromes = map[uint32]uint8{
	abi.IB_WC_LOC_QP_OP_ERR: recvFormat, abi.IB_WC_LOC_PROT_ERR: recvKey, abi.IB_WC_LOC_ACCESS_ERR: recvKey,
	abi.IB_WC_LOC_LEN_ERR: recvAddr, abi.IB_WC_REM_ACCESS_ERR: recvRight, abi.IB_WC_WR_FLUSH_ERR: flushed,
}

// syndrome is how the device tells that a send ended with a status of the verbs. Of bad
// memory of its own it knows what is wrong.
func (q *QP) syndrome(w *fakeverbs.Work, status uint32) uint8 {
	switch status {
	case abi.IB_WC_SUCCESS:
		return 0
	case abi.IB_WC_LOC_PROT_ERR, abi.IB_WC_LOC_ACCESS_ERR:
		for _, s := range w.SGL {
			if why := q.wrongWith(s, writesHere(w)); why != 0 {
				return why
			}
		}
	}
	if s, ok := sendSyndromes[status]; ok {
		return s
	}
	return general
}

// writesHere tells whether a send has the device write to local memory.
func writesHere(w *fakeverbs.Work) bool {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_RDMA_READ_WITH_INV,
		abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		return true
	}
	return false
}

// wrongWith is 0 for an SGE that is good.
func (q *QP) wrongWith(s fakeverbs.SGE, write bool) uint8 {
	for mr := range fakeverbs.Objects[*fakeverbs.MR](q.qp.Kernel()) {
		switch {
		case mr.Key != s.LKey:
		case s.Addr+uint64(s.Length) < s.Addr:
			return sendWrap
		case s.Addr < mr.Start || s.Addr-mr.Start+uint64(s.Length) > mr.Length:
			return sendAddr
		case write && mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0:
			return sendRight
		case mr.PD != q.qp.PD:
			return sendPD
		default:
			return 0
		}
	}
	return sendKey
}
