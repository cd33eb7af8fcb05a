package rxe

import (
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// NextSend leaves the send on the queue, whose room it takes until it is done.
func (q *QP) NextSend() (*fakeverbs.Work, bool) {
	var s Send
	if !q.sq.peekSend(uint32(len(q.qp.Taken)), &s) {
		return nil, false
	}
	q.check(&s)
	w := &fakeverbs.Work{ID: s.Wr.WrId, Opcode: s.Wr.Opcode, Flags: s.Wr.SendFlags, Imm: s.Wr.Ex}
	if _, ok := wcOpcodes[w.Opcode]; !ok {
		w.Opcode = fakeverbs.NoOpcode
	}
	if q.qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0 {
		w.Flags |= abi.IB_SEND_SIGNALED
	}
	q.arm(w, &s)
	length := min(int(s.Dma.Length), len(s.Payload))
	switch {
	case w.Flags&abi.IB_SEND_INLINE != 0, w.Opcode == abi.IB_UVERBS_WR_ATOMIC_WRITE:
		w.Inline = slices.Clone(s.Payload[:length])
	default:
		w.SGL = w.SGLRoom[:0]
		for i := range min(s.Dma.NumSge, maxSGE) {
			w.SGL = append(w.SGL, s.sge(i))
		}
	}
	return w, true
}

func (s *Send) sge(i uint32) fakeverbs.SGE {
	b := s.Payload[sgeSize*i:]
	return fakeverbs.SGE{Addr: u64(b, 0), Length: u32(b, 8), LKey: u32(b, 12)}
}

// arm reads the part of a send that depends on the opcode, and of a datagram where it goes.
func (q *QP) arm(w *fakeverbs.Work, s *Send) {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		r := WR[abi.RxeSendWrAtomic](s)
		w.RemoteAddr, w.RKey, w.Compare, w.Swap = s.Iova, r.Rkey, r.CompareAdd, r.Swap
	case abi.IB_UVERBS_WR_BIND_MW:
		r := WR[abi.RxeSendWrMw](s)
		w.Bind = fakeverbs.Binding{Addr: r.Addr, Length: r.Length, LKey: r.MrLkey, RKey: r.MwRkey, NewRKey: r.Rkey, Access: r.Access}
	case abi.IB_UVERBS_WR_FLUSH:
		r := WR[abi.RxeSendWrFlush](s)
		w.RemoteAddr, w.RKey, w.Flush = s.Iova, r.Rkey, s.Dma.Resid
	case abi.IB_UVERBS_WR_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM:
		if q.qp.Type == abi.IB_UVERBS_QPT_UD {
			r := WR[abi.RxeSendWrUd](s)
			w.To = fakeverbs.Destination{QPN: r.RemoteQpn, QKey: r.RemoteQkey, AH: ah(q.qp.Kernel(), r.AhNum)}
		}
	default:
		w.RemoteAddr, w.RKey = s.Iova, WR[abi.RxeSendWrRdma](s).Rkey
	}
}

// ah finds an AH by the number that a send names, or nil.
func ah(k *fakeverbs.Kernel, num uint32) *fakeverbs.AH {
	for ah := range fakeverbs.Objects[*fakeverbs.AH](k) {
		if ah.Num == num {
			return ah
		}
	}
	return nil
}

// SendDone leaves the opcode of a failure 0, as rxe does.
func (q *QP) SendDone(w *fakeverbs.Work, status uint32, tell bool) {
	q.sq.drop()
	if !tell {
		return
	}
	wc := &abi.IbUverbsWc{WrId: w.ID, Status: status, QpNum: q.qp.Num}
	if status == abi.IB_WC_SUCCESS {
		wc.Opcode, wc.ByteLen = wcOpcodes[w.Opcode], w.Len()
		if w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM || w.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM {
			wc.WcFlags = abi.IB_WC_WITH_IMM
		}
	}
	CQOf(q.qp.SendCQ).complete(wc, false)
}

func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	r, ok := q.takeRecv()
	if !ok {
		return nil, false
	}
	return r.recv(), true
}

func (r *Recv) recv() *fakeverbs.Recv {
	to := &fakeverbs.Recv{ID: r.WrId}
	to.SGL = to.SGLRoom[:0]
	for _, g := range r.SGE[:min(r.Dma.NumSge, maxSGE)] {
		to.SGL = append(to.SGL, fakeverbs.SGE{Addr: g.Addr, Length: g.Length, LKey: g.Lkey})
	}
	return to
}

// OldestRecv looks at the receive that is next.
func (q *QP) OldestRecv() (*fakeverbs.Recv, bool) {
	ring := q.rq
	if ring == nil {
		ring = SRQOf(q.qp.SRQ).ring
	}
	var r Recv
	ok := ring.peekRecv(&r)
	return r.recv(), ok
}

func (q *QP) RecvDone(_ *fakeverbs.Recv, wc abi.IbUverbsWc, solicited bool) {
	CQOf(q.qp.RecvCQ).complete(&wc, solicited)
}
