package siw

import (
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

var opcodes = map[uint8]uint32{
	abi.SIW_OP_WRITE: abi.IB_UVERBS_WR_RDMA_WRITE, abi.SIW_OP_READ: abi.IB_UVERBS_WR_RDMA_READ,
	abi.SIW_OP_READ_LOCAL_INV: abi.IB_UVERBS_WR_RDMA_READ_WITH_INV, abi.SIW_OP_SEND: abi.IB_UVERBS_WR_SEND,
	abi.SIW_OP_SEND_REMOTE_INV: abi.IB_UVERBS_WR_SEND_WITH_INV, abi.SIW_OP_INVAL_STAG: abi.IB_UVERBS_WR_LOCAL_INV,
}

var flagNames = []struct {
	siw   uint16
	verbs uint32
}{
	{abi.SIW_WQE_SIGNALLED, abi.IB_SEND_SIGNALED}, {abi.SIW_WQE_SOLICITED, abi.IB_SEND_SOLICITED},
	{abi.SIW_WQE_READ_FENCE, abi.IB_SEND_FENCE}, {abi.SIW_WQE_INLINE, abi.IB_SEND_INLINE},
}

// NextSend leaves the driver's opcode in index: an operation that has no verb has to be
// completed too.
func (q *QP) NextSend() (*fakeverbs.Work, bool) {
	s, ok := q.sq.takeSend()
	if !ok {
		return nil, false
	}
	q.check(&s)
	w := &fakeverbs.Work{ID: s.Id, RemoteAddr: s.Raddr, RKey: s.Rkey, Imm: s.Rkey, Index: uint32(s.Opcode)}
	w.Opcode, ok = opcodes[s.Opcode]
	if !ok {
		w.Opcode = fakeverbs.NoOpcode
	}
	for _, f := range flagNames {
		if s.Flags&f.siw != 0 {
			w.Flags |= f.verbs
		}
	}
	if w.Flags&abi.IB_SEND_INLINE != 0 {
		room := abi.Bytes(&s.Sge)[sgeSize:]
		w.Inline = slices.Clone(room[:min(int(s.Sge[0].Length), len(room))])
		return w, true
	}
	n := s.NumSge
	if reads(s.Opcode) {
		n = 1
	}
	w.SGL = sgl(w.SGLRoom[:0], &s.Sge, n)
	return w, true
}

func sgl(sgl []fakeverbs.SGE, from *[abi.SIW_MAX_SGE]abi.SiwSge, n uint8) []fakeverbs.SGE {
	for _, s := range from[:min(int(n), len(from))] {
		sgl = append(sgl, fakeverbs.SGE{Addr: s.Laddr, Length: s.Length, LKey: s.Lkey})
	}
	return sgl
}

func (q *QP) SendDone(w *fakeverbs.Work, status uint32, tell bool) {
	if !tell {
		return
	}
	CQOf(q.qp.SendCQ).complete(abi.SiwCqe{Id: w.ID, Opcode: uint8(w.Index), Bytes: w.Len(), Status: siwStatus(status), QpId: uint64(q.qp.Num)},
		w.Flags&abi.IB_SEND_SOLICITED != 0)
}

func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	r, ok := q.takeRecv()
	if !ok {
		return nil, false
	}
	to := &fakeverbs.Recv{ID: r.Id}
	to.SGL = sgl(to.SGLRoom[:0], &r.Sge, r.NumSge)
	return to, true
}

func (q *QP) RecvDone(_ *fakeverbs.Recv, wc abi.IbUverbsWc, _ bool) {
	q.received(wc.WrId, wc.ByteLen, siwStatus(wc.Status))
}

var statuses = map[uint32]uint16{
	abi.IB_WC_SUCCESS: abi.SIW_WC_SUCCESS, abi.IB_WC_LOC_LEN_ERR: abi.SIW_WC_LOC_LEN_ERR,
	abi.IB_WC_LOC_PROT_ERR: abi.SIW_WC_LOC_PROT_ERR, abi.IB_WC_LOC_QP_OP_ERR: abi.SIW_WC_LOC_QP_OP_ERR,
	abi.IB_WC_WR_FLUSH_ERR: abi.SIW_WC_WR_FLUSH_ERR, abi.IB_WC_BAD_RESP_ERR: abi.SIW_WC_BAD_RESP_ERR,
	abi.IB_WC_LOC_ACCESS_ERR: abi.SIW_WC_LOC_ACCESS_ERR, abi.IB_WC_REM_ACCESS_ERR: abi.SIW_WC_REM_ACCESS_ERR,
	abi.IB_WC_REM_INV_REQ_ERR: abi.SIW_WC_REM_INV_REQ_ERR,
}

// siwStatus is siw's number of a status of the verbs. It has fewer.
func siwStatus(status uint32) uint16 {
	if s, ok := statuses[status]; ok {
		return s
	}
	return abi.SIW_WC_GENERAL_ERR
}
