package erdma

import (
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// oldest is the first block that is not done.
func (q *QP) oldest() uint32 {
	switch {
	case len(q.qp.Taken) > 0:
		return q.sqTold - uint32(uint16(q.sqTold-q.qp.Taken[0].Index))
	case len(q.sends) > 0:
		return q.sends[0].at
	}
	return q.sqTold
}

// NextSend answers a malformed send with an error, which is the end of the QP.
func (q *QP) NextSend() (*fakeverbs.Work, bool) {
	if len(q.sends) == 0 {
		return nil, false
	}
	s := q.sends[0]
	if q.sends = slices.Delete(q.sends, 0, 1); s.bad {
		q.sent(s.Work, sendFormat)
		q.EnterError()
		return nil, false
	}
	return s.Work, true
}

// sent writes the completion of a send.
func (q *QP) sent(w *fakeverbs.Work, syndrome uint8) {
	CQOf(q.qp.SendCQ).complete(&CQE{Opcode: w.Code, QueueType: sendQueue, Syndrome: syndrome,
		Index: w.Index, QPN: q.qp.Num, Size: w.Len()})
}

func (q *QP) SendDone(w *fakeverbs.Work, status uint32, tell bool) {
	if tell {
		q.sent(w, q.syndrome(w, status))
	}
}

// NextRecv looks at the record, where doorbells come late.
func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	if len(q.recvs) == 0 && q.e.options.Late && !q.stopped {
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

func (q *QP) RecvDone(r *fakeverbs.Recv, wc abi.IbUverbsWc, solicited bool) {
	c := &CQE{Opcode: receive, QueueType: recvQueue, Index: r.Index, QPN: q.qp.Num, Size: wc.ByteLen, Solicited: solicited}
	switch {
	case wc.Status != abi.IB_WC_SUCCESS:
		c.Syndrome = recvSyndromes[wc.Status]
		if c.Syndrome == 0 {
			c.Syndrome = general
		}
	case wc.WcFlags&abi.IB_WC_WITH_IMM != 0:
		c.Opcode, c.Imm = rspSendImm, imm(wc.Ex)
		if wc.Opcode == abi.IB_WC_RECV_RDMA_WITH_IMM {
			c.Opcode = recvImm
		}
	case wc.WcFlags&abi.IB_WC_WITH_INVALIDATE != 0:
		c.Opcode, c.InvalidatedKey = recvInv, wc.Ex
	}
	CQOf(q.qp.RecvCQ).complete(c)
}

// EnterError flushes the requests that the device was told of. It leaves later ones until the kernel
// stops the QP. The real device may differ: nothing in rdma-core depends on it, because its
// provider posts nothing after a failure. For QPs of its own the kernel has a command by which
// the device looks at later requests.
func (q *QP) EnterError() {
	if q.stopped {
		return
	}
	q.qp.CurState = abi.IB_QPS_ERR
	q.qp.FlushTaken()
	for _, s := range q.sends {
		q.sent(s.Work, flushed)
	}
	for _, r := range q.recvs {
		CQOf(q.qp.RecvCQ).complete(&CQE{Opcode: receive, QueueType: recvQueue, Syndrome: flushed,
			Index: r.Index, QPN: q.qp.Num})
	}
	q.sends, q.recvs = nil, nil
}

// Fail completes the oldest send with any syndrome, which is the end of the QP. It reports
// whether there was one.
func (q *QP) Fail(syndrome uint8) bool {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	w, ok := q.NextSend()
	if ok {
		q.sent(w, syndrome)
		q.EnterError()
	}
	return ok
}

// FailRecv is Fail for a receive.
func (q *QP) FailRecv(syndrome uint8) bool {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	r, ok := q.NextRecv()
	if ok {
		CQOf(q.qp.RecvCQ).complete(&CQE{Opcode: receive, QueueType: recvQueue, Syndrome: syndrome, Index: r.Index, QPN: q.qp.Num})
		q.EnterError()
	}
	return ok
}
