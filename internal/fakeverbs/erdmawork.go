package fakeverbs

import (
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

// oldest is the first block that is not done.
func (q *ERDMAQP) oldest() uint32 {
	switch {
	case len(q.qp.taken) > 0:
		return q.sqTold - uint32(uint16(q.sqTold-q.qp.taken[0].index))
	case len(q.sends) > 0:
		return q.sends[0].at
	}
	return q.sqTold
}

// nextSend answers a malformed send with an error, which is the end of the QP.
func (q *ERDMAQP) nextSend() (*Work, bool) {
	if len(q.sends) == 0 {
		return nil, false
	}
	s := q.sends[0]
	if q.sends = slices.Delete(q.sends, 0, 1); s.bad {
		q.sent(s.Work, erdmaSendFormat)
		q.fail()
		return nil, false
	}
	return s.Work, true
}

// sent writes the completion of a send.
func (q *ERDMAQP) sent(w *Work, syndrome uint8) {
	q.qp.SendCQ.ERDMA.complete(&ERDMACQE{Opcode: w.erdma, QueueType: erdmaSendQueue, Syndrome: syndrome,
		Index: w.index, QPN: q.qp.Num, Size: w.Len()})
}

func (q *ERDMAQP) sendDone(w *Work, status uint32, tell bool) {
	if tell {
		q.sent(w, q.syndrome(w, status))
	}
}

// nextRecv looks at the record, where doorbells come late.
func (q *ERDMAQP) nextRecv() (*Recv, bool) {
	if len(q.recvs) == 0 && q.e.k.ERDMA.Late && !q.stopped {
		if v, ok := q.e.load(q, q.qp.Num, q.record+8); ok {
			q.takeRecvs(v)
		}
	}
	if len(q.recvs) == 0 {
		return nil, false
	}
	r := q.recvs[0]
	q.recvs = slices.Delete(q.recvs, 0, 1)
	return r, true
}

func (q *ERDMAQP) recvDone(r *Recv, wc abi.IbUverbsWc, solicited bool) {
	c := &ERDMACQE{Opcode: erdmaReceive, QueueType: erdmaRecvQueue, Index: r.index, QPN: q.qp.Num, Size: wc.ByteLen, Solicited: solicited}
	switch {
	case wc.Status != abi.IB_WC_SUCCESS:
		c.Syndrome = erdmaRecvSyndromes[wc.Status]
		if c.Syndrome == 0 {
			c.Syndrome = erdmaGeneral
		}
	case wc.WcFlags&abi.IB_WC_WITH_IMM != 0:
		c.Opcode, c.Imm = erdmaRspSendImm, erdmaImm(wc.Ex)
		if wc.Opcode == abi.IB_WC_RECV_RDMA_WITH_IMM {
			c.Opcode = erdmaRecvImm
		}
	case wc.WcFlags&abi.IB_WC_WITH_INVALIDATE != 0:
		c.Opcode, c.InvalidatedKey = erdmaRecvInv, wc.Ex
	}
	q.qp.RecvCQ.ERDMA.complete(c)
}

// fail flushes the requests that the device was told of. It leaves later ones until the kernel
// stops the QP. The real device may differ: nothing in rdma-core depends on it, because its
// provider posts nothing after a failure. For QPs of its own the kernel has a command by which
// the device looks at later requests.
func (q *ERDMAQP) fail() {
	if q.stopped {
		return
	}
	q.qp.state = abi.IB_QPS_ERR
	q.qp.flushTaken()
	for _, s := range q.sends {
		q.sent(s.Work, erdmaFlushed)
	}
	for _, r := range q.recvs {
		q.qp.RecvCQ.ERDMA.complete(&ERDMACQE{Opcode: erdmaReceive, QueueType: erdmaRecvQueue, Syndrome: erdmaFlushed,
			Index: r.index, QPN: q.qp.Num})
	}
	q.sends, q.recvs = nil, nil
}

// Fail completes the oldest send with any syndrome, which is the end of the QP. It reports
// whether there was one.
func (q *ERDMAQP) Fail(syndrome uint8) bool {
	q.qp.k.mu.Lock()
	defer q.qp.k.mu.Unlock()
	w, ok := q.nextSend()
	if ok {
		q.sent(w, syndrome)
		q.fail()
	}
	return ok
}

// FailRecv is Fail for a receive.
func (q *ERDMAQP) FailRecv(syndrome uint8) bool {
	q.qp.k.mu.Lock()
	defer q.qp.k.mu.Unlock()
	r, ok := q.nextRecv()
	if ok {
		q.qp.RecvCQ.ERDMA.complete(&ERDMACQE{Opcode: erdmaReceive, QueueType: erdmaRecvQueue, Syndrome: syndrome, Index: r.index, QPN: q.qp.Num})
		q.fail()
	}
	return ok
}
