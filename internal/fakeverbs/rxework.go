package fakeverbs

import "github.com/goverbs/goverbs/internal/abi"

// RXESend is a send as user space wrote it.
type RXESend struct {
	abi.RxeSendWqe
	// Payload is what stands behind it: SGEs, or inline data.
	Payload [maxRXEInline]byte
}

// RXEWR reads the part of a send that depends on the opcode.
func RXEWR[T any](s *RXESend) (wr T) {
	copy(abi.Bytes(&wr), s.Wr.Wr[:])
	return wr
}

// RXERecv is a receive as user space wrote it.
type RXERecv struct {
	abi.RxeRecvWqe
	SGE [maxRXESGE]abi.RxeSge // the first Dma.NumSge count
}

// TakeSend takes the oldest send, as when it was acknowledged: its slot is free.
func (q *RXEQP) TakeSend() (RXESend, bool) {
	q.qp.k.mu.Lock()
	defer q.qp.k.mu.Unlock()
	return takeRXESend(q.sq)
}

// TakeRecv takes the oldest receive, of the QP or its SRQ, as for an arriving
// message.
func (q *RXEQP) TakeRecv() (RXERecv, bool) {
	q.qp.k.mu.Lock()
	defer q.qp.k.mu.Unlock()
	return q.takeRecv()
}

func (q *RXEQP) takeRecv() (RXERecv, bool) {
	if q.rq == nil {
		return q.qp.srq.RXE.take()
	}
	r, ok := takeRXERecv(q.rq)
	if ok {
		q.rq.check(&r, q.qp.Cap.MaxRecvSge)
	}
	return r, ok
}

func takeRXESend(q *rxeRing) (s RXESend, ok bool) {
	if ok = q.peekSend(0, &s); ok {
		q.drop()
	}
	return s, ok
}

// peekSend reads the send that is n behind the oldest.
func (q *rxeRing) peekSend(n uint32, s *RXESend) bool {
	if n >= q.count() {
		return false
	}
	var b [rxeSendSize + maxRXEInline]byte
	entry := b[:copy(b[:], q.at(q.index+n))]
	q.read(entry)
	copy(s.Payload[:], entry[copy(abi.Bytes(&s.RxeSendWqe), entry):])
	return true
}

func takeRXERecv(q *rxeRing) (r RXERecv, ok bool) {
	q.record(q.producer)
	e := q.head()
	if e == nil {
		return r, false
	}
	var b [rxeMostRecv]byte
	entry := b[:copy(b[:], e)]
	q.read(entry)
	r.fill(entry)
	q.drop()
	return r, true
}

func (q *rxeRing) peekRecv(r *RXERecv) bool {
	b := q.head()
	if b != nil {
		r.fill(b)
	}
	return b != nil
}

func (r *RXERecv) fill(b []byte) {
	b = b[copy(abi.Bytes(&r.RxeRecvWqe), b):]
	for i := range r.SGE[:min(r.Dma.NumSge, maxRXESGE)] {
		b = b[copy(abi.Bytes(&r.SGE[i]), b):]
	}
}

// carry completes as do_complete does: errors always, and move the QP to the
// error state.
func (q *RXEQP) carry(status uint32) bool {
	s, ok := takeRXESend(q.sq)
	if !ok {
		return false
	}
	wc := abi.IbUverbsWc{WrId: s.Wr.WrId, Status: status, QpNum: q.qp.Num}
	switch {
	case status != abi.IB_WC_SUCCESS:
		q.qp.SendCQ.RXE.complete(&wc, false)
		q.fail()
	case s.Wr.SendFlags&abi.IB_SEND_SIGNALED != 0 || q.qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0:
		wc.Opcode, wc.ByteLen = rxeWCOpcodes[s.Wr.Opcode], s.Dma.Length
		if s.Wr.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM || s.Wr.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM {
			wc.WcFlags = abi.IB_WC_WITH_IMM
		}
		q.qp.SendCQ.RXE.complete(&wc, false)
	}
	return true
}

var rxeWCOpcodes = map[uint32]uint32{
	abi.IB_UVERBS_WR_RDMA_WRITE: abi.IB_WC_RDMA_WRITE, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: abi.IB_WC_RDMA_WRITE,
	abi.IB_UVERBS_WR_SEND: abi.IB_WC_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM: abi.IB_WC_SEND, abi.IB_UVERBS_WR_SEND_WITH_INV: abi.IB_WC_SEND,
	abi.IB_UVERBS_WR_RDMA_READ: abi.IB_WC_RDMA_READ, abi.IB_UVERBS_WR_RDMA_READ_WITH_INV: abi.IB_WC_RDMA_READ,
	abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: abi.IB_WC_COMP_SWAP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: abi.IB_WC_FETCH_ADD,
	abi.IB_UVERBS_WR_LOCAL_INV: abi.IB_WC_LOCAL_INV, abi.IB_UVERBS_WR_BIND_MW: abi.IB_WC_BIND_MW,
	abi.IB_UVERBS_WR_FLUSH: abi.IB_WC_FLUSH, abi.IB_UVERBS_WR_ATOMIC_WRITE: abi.IB_WC_ATOMIC_WRITE,
}

// receive completes a SEND; every message comes with a GRH on RoCE.
func (q *RXEQP) receive(n uint32) bool {
	r, ok := q.takeRecv()
	if ok {
		q.qp.RecvCQ.RXE.complete(&abi.IbUverbsWc{WrId: r.WrId, Opcode: abi.IB_WC_RECV, ByteLen: n, QpNum: q.qp.Num,
			WcFlags: abi.IB_WC_GRH, PortNum: 1}, false)
	}
	return ok
}
