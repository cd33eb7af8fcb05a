package fakeverbs

import (
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

// nextSend leaves the send on the queue, whose room it takes until it is done.
func (q *RXEQP) nextSend() (*Work, bool) {
	var s RXESend
	if !q.sq.peekSend(uint32(len(q.qp.taken)), &s) {
		return nil, false
	}
	q.check(&s)
	w := &Work{ID: s.Wr.WrId, Opcode: s.Wr.Opcode, Flags: s.Wr.SendFlags, Imm: s.Wr.Ex}
	if _, ok := rxeWCOpcodes[w.Opcode]; !ok {
		w.Opcode = NoOpcode
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
		w.SGL = w.few[:0]
		for i := range min(s.Dma.NumSge, maxRXESGE) {
			w.SGL = append(w.SGL, s.sge(i))
		}
	}
	return w, true
}

func (s *RXESend) sge(i uint32) SGE {
	b := s.Payload[rxeSGESize*i:]
	return SGE{u64(b, 0), u32(b, 8), u32(b, 12)}
}

// arm reads the part of a send that depends on the opcode, and of a datagram where it goes.
func (q *RXEQP) arm(w *Work, s *RXESend) {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		r := RXEWR[abi.RxeSendWrAtomic](s)
		w.RemoteAddr, w.RKey, w.Compare, w.Swap = s.Iova, r.Rkey, r.CompareAdd, r.Swap
	case abi.IB_UVERBS_WR_BIND_MW:
		r := RXEWR[abi.RxeSendWrMw](s)
		w.Bind = Binding{r.Addr, r.Length, r.MrLkey, r.MwRkey, r.Rkey, r.Access}
	case abi.IB_UVERBS_WR_FLUSH:
		r := RXEWR[abi.RxeSendWrFlush](s)
		w.RemoteAddr, w.RKey, w.Flush = s.Iova, r.Rkey, s.Dma.Resid
	case abi.IB_UVERBS_WR_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM:
		if q.qp.Type == abi.IB_UVERBS_QPT_UD {
			r := RXEWR[abi.RxeSendWrUd](s)
			w.To = Destination{QPN: r.RemoteQpn, QKey: r.RemoteQkey, AH: q.qp.k.rxeAH(r.AhNum)}
		}
	default:
		w.RemoteAddr, w.RKey = s.Iova, RXEWR[abi.RxeSendWrRdma](s).Rkey
	}
}

// rxeAH finds an AH by the number that a send names, or nil.
func (k *Kernel) rxeAH(num uint32) *AH {
	for _, o := range k.objects {
		if ah, ok := o.body.(*AH); ok && ah.num == num {
			return ah
		}
	}
	return nil
}

// sendDone leaves the opcode of a failure 0, as rxe does.
func (q *RXEQP) sendDone(w *Work, status uint32, tell bool) {
	q.sq.drop()
	if !tell {
		return
	}
	wc := &abi.IbUverbsWc{WrId: w.ID, Status: status, QpNum: q.qp.Num}
	if status == abi.IB_WC_SUCCESS {
		wc.Opcode, wc.ByteLen = rxeWCOpcodes[w.Opcode], w.Len()
		if w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM || w.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM {
			wc.WcFlags = abi.IB_WC_WITH_IMM
		}
	}
	q.qp.SendCQ.RXE.complete(wc, false)
}

func (q *RXEQP) nextRecv() (*Recv, bool) {
	r, ok := q.takeRecv()
	if !ok {
		return nil, false
	}
	return r.recv(), true
}

func (r *RXERecv) recv() *Recv {
	to := &Recv{ID: r.WrId}
	to.SGL = to.few[:0]
	for _, g := range r.SGE[:min(r.Dma.NumSge, maxRXESGE)] {
		to.SGL = append(to.SGL, SGE{g.Addr, g.Length, g.Lkey})
	}
	return to
}

// oldestRecv looks at the receive that is next.
func (q *RXEQP) oldestRecv() (*Recv, bool) {
	ring := q.rq
	if ring == nil {
		ring = q.qp.srq.RXE.ring
	}
	var r RXERecv
	ok := ring.peekRecv(&r)
	return r.recv(), ok
}

func (q *RXEQP) recvDone(_ *Recv, wc abi.IbUverbsWc, solicited bool) {
	q.qp.RecvCQ.RXE.complete(&wc, solicited)
}
