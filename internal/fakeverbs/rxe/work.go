package rxe

import "github.com/goverbs/goverbs/internal/abi"

// Send is a send as user space wrote it.
type Send struct {
	abi.RxeSendWqe
	// Payload is what stands behind it: SGEs, or inline data.
	Payload [maxInline]byte
}

// WR reads the part of a send that depends on the opcode.
func WR[T any](s *Send) (wr T) {
	copy(abi.Bytes(&wr), s.Wr.Wr[:])
	return wr
}

// Recv is a receive as user space wrote it.
type Recv struct {
	abi.RxeRecvWqe
	SGE [maxSGE]abi.RxeSge // the first Dma.NumSge count
}

// TakeSend takes the oldest send, as when it was acknowledged: its slot is free.
func (q *QP) TakeSend() (Send, bool) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	return takeSend(q.sq)
}

// TakeRecv takes the oldest receive, of the QP or its SRQ, as for an arriving
// message.
func (q *QP) TakeRecv() (Recv, bool) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	return q.takeRecv()
}

func (q *QP) takeRecv() (Recv, bool) {
	if q.rq == nil {
		return SRQOf(q.qp.SRQ).take()
	}
	r, ok := takeRecv(q.rq)
	if ok {
		q.rq.check(&r, q.qp.Cap.MaxRecvSge)
	}
	return r, ok
}

func takeSend(q *ring) (s Send, ok bool) {
	if ok = q.peekSend(0, &s); ok {
		q.drop()
	}
	return s, ok
}

// peekSend reads the send that is n behind the oldest.
func (q *ring) peekSend(n uint32, s *Send) bool {
	if n >= q.count() {
		return false
	}
	var b [sendSize + maxInline]byte
	entry := b[:copy(b[:], q.at(q.index+n))]
	q.ReadEntry(entry)
	copy(s.Payload[:], entry[copy(abi.Bytes(&s.RxeSendWqe), entry):])
	return true
}

func takeRecv(q *ring) (r Recv, ok bool) {
	q.ReadRecord(q.producer)
	e := q.head()
	if e == nil {
		return r, false
	}
	var b [mostRecv]byte
	entry := b[:copy(b[:], e)]
	q.ReadEntry(entry)
	r.fill(entry)
	q.drop()
	return r, true
}

func (q *ring) peekRecv(r *Recv) bool {
	b := q.head()
	if b != nil {
		r.fill(b)
	}
	return b != nil
}

func (r *Recv) fill(b []byte) {
	b = b[copy(abi.Bytes(&r.RxeRecvWqe), b):]
	for i := range r.SGE[:min(r.Dma.NumSge, maxSGE)] {
		b = b[copy(abi.Bytes(&r.SGE[i]), b):]
	}
}

// Carry completes as do_complete does: errors always, and move the QP to the
// error state.
func (q *QP) Carry(status uint32) bool {
	s, ok := takeSend(q.sq)
	if !ok {
		return false
	}
	wc := abi.IbUverbsWc{WrId: s.Wr.WrId, Status: status, QpNum: q.qp.Num}
	switch {
	case status != abi.IB_WC_SUCCESS:
		CQOf(q.qp.SendCQ).complete(&wc, false)
		q.EnterError()
	case s.Wr.SendFlags&abi.IB_SEND_SIGNALED != 0 || q.qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0:
		wc.Opcode, wc.ByteLen = wcOpcodes[s.Wr.Opcode], s.Dma.Length
		if s.Wr.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM || s.Wr.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM {
			wc.WcFlags = abi.IB_WC_WITH_IMM
		}
		CQOf(q.qp.SendCQ).complete(&wc, false)
	}
	return true
}

var wcOpcodes = map[uint32]uint32{
	abi.IB_UVERBS_WR_RDMA_WRITE: abi.IB_WC_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: abi.IB_WC_RDMA_WRITE,
	abi.IB_UVERBS_WR_SEND: abi.IB_WC_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM: abi.IB_WC_SEND, abi.IB_UVERBS_WR_SEND_WITH_INV: abi.IB_WC_SEND,
	abi.IB_UVERBS_WR_RDMA_READ: abi.IB_WC_RDMA_READ, abi.IB_UVERBS_WR_RDMA_READ_WITH_INV: abi.IB_WC_RDMA_READ,
	abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: abi.IB_WC_COMP_SWAP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: abi.IB_WC_FETCH_ADD,
	abi.IB_UVERBS_WR_LOCAL_INV: abi.IB_WC_LOCAL_INV, abi.IB_UVERBS_WR_BIND_MW: abi.IB_WC_BIND_MW,
	abi.IB_UVERBS_WR_FLUSH: abi.IB_WC_FLUSH, abi.IB_UVERBS_WR_ATOMIC_WRITE: abi.IB_WC_ATOMIC_WRITE,
}

// Receive completes a SEND; every message comes with a GRH on RoCE.
func (q *QP) Receive(n uint32) bool {
	r, ok := q.takeRecv()
	if ok {
		CQOf(q.qp.RecvCQ).complete(&abi.IbUverbsWc{WrId: r.WrId, Opcode: abi.IB_WC_RECV, ByteLen: n, QpNum: q.qp.Num,
			WcFlags: abi.IB_WC_GRH, PortNum: 1}, false)
	}
	return ok
}
