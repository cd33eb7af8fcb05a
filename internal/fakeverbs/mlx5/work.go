package mlx5

import (
	"encoding/binary"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// oldest is the first block that is not done.
func (q *QP) oldest() uint32 {
	q.busy = slices.DeleteFunc(q.busy, func(s *send) bool { return !slices.Contains(q.qp.Taken, s.Work) })
	switch {
	case len(q.busy) > 0:
		return q.busy[0].at
	case len(q.sends) > 0:
		return q.sends[0].at
	}
	return q.told
}

// NextSend answers a malformed send with an error, which is the end of the QP.
func (q *QP) NextSend() (*fakeverbs.Work, bool) {
	if len(q.sends) == 0 || q.qp.CurState != abi.IB_QPS_RTS {
		return nil, false
	}
	s := q.sends[0]
	q.sends = slices.Delete(q.sends, 0, 1)
	if s.bad {
		q.sent(s.Work, 0x02, 0x68)
		q.EnterError()
		return nil, false
	}
	q.busy = append(q.busy, s)
	return s.Work, true
}

var codes = map[uint32]uint8{
	abi.IB_UVERBS_WR_SEND_WITH_INV: 0x01, abi.IB_UVERBS_WR_RDMA_WRITE: 0x08, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: 0x09,
	abi.IB_UVERBS_WR_SEND: 0x0a, abi.IB_UVERBS_WR_SEND_WITH_IMM: 0x0b, abi.IB_UVERBS_WR_RDMA_READ: 0x10,
	abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: 0x11, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: 0x12,
	abi.IB_UVERBS_WR_BIND_MW: 0x25, abi.IB_UVERBS_WR_LOCAL_INV: 0x25,
}

// sent writes the completion of a send.
func (q *QP) sent(w *fakeverbs.Work, syndrome, vendor uint8) {
	c := &CQE{Opcode: cqeRequest, WQEOpcode: codes[w.Opcode], Counter: uint16(w.Index), QPN: q.qp.Num, Queue: q.queue(),
		Syndrome: syndrome, Vendor: vendor, Bytes: w.Len(), Data: w.Data}
	if syndrome != 0 {
		c.Opcode = cqeReqErr
	}
	CQOf(q.qp.SendCQ).complete(c)
}

// queue is the number that completions name the QP by.
func (q *QP) queue() uint32 {
	if q.m.version == 1 {
		return q.index
	}
	return 0
}

// The syndromes of errors, and the code that the device adds to each.
var syndromes = map[uint32]uint8{
	abi.IB_WC_LOC_LEN_ERR: 0x01, abi.IB_WC_LOC_QP_OP_ERR: 0x02, abi.IB_WC_LOC_PROT_ERR: 0x04, abi.IB_WC_WR_FLUSH_ERR: 0x05,
	abi.IB_WC_MW_BIND_ERR: 0x06, abi.IB_WC_BAD_RESP_ERR: 0x10, abi.IB_WC_LOC_ACCESS_ERR: 0x11, abi.IB_WC_REM_INV_REQ_ERR: 0x12,
	abi.IB_WC_REM_ACCESS_ERR: 0x13, abi.IB_WC_REM_OP_ERR: 0x14, abi.IB_WC_RETRY_EXC_ERR: 0x15, abi.IB_WC_RNR_RETRY_EXC_ERR: 0x16,
	abi.IB_WC_REM_ABORT_ERR: 0x22,
}

func syndrome(status uint32) (syndrome, vendor uint8) {
	if status == abi.IB_WC_SUCCESS {
		return 0, 0
	}
	if s, ok := syndromes[status]; ok {
		return s, 0x80 | s
	}
	return 0x7f, 0xff
}

func (q *QP) SendDone(w *fakeverbs.Work, status uint32, tell bool) {
	if !tell {
		return
	}
	syndrome, vendor := syndrome(status)
	q.sent(w, syndrome, vendor)
}

func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	if q.qp.SRQ != nil {
		return SRQOf(q.qp.SRQ).take()
	}
	return q.rq.next()
}

func (q *QP) OldestRecv() (*fakeverbs.Recv, bool) {
	if s := q.qp.SRQ; s != nil {
		b, ok := SRQOf(s).oldest()
		if !ok {
			return nil, false
		}
		to := new(fakeverbs.Recv)
		q.m.scatter(named("SRQ"), to, b[16:])
		return to, true
	}
	b, _, ok := q.rq.oldest()
	to := new(fakeverbs.Recv)
	q.m.scatter(q, to, b)
	return to, ok
}

// received writes the completion of a receive.
func (q *QP) received(r *fakeverbs.Recv, c *CQE) {
	c.QPN, c.Counter, c.Queue = q.qp.Num, uint16(r.Index), q.queue()
	if s := q.qp.SRQ; s != nil {
		SRQOf(s).done(r.Index)
		if q.m.version == 0 {
			c.Queue = SRQOf(s).Num
		}
	} else {
		q.rq.done(r.Index)
	}
	CQOf(q.qp.RecvCQ).complete(c)
}

func (q *QP) RecvDone(r *fakeverbs.Recv, wc abi.IbUverbsWc, solicited bool) {
	c := received(r, &wc, solicited)
	if q.qp.Type == abi.IB_UVERBS_QPT_UD {
		c.From, c.SLID, c.Path = wc.SrcQp&0xffffff|uint32(wc.Sl&0xf)<<24, wc.Slid, wc.DlidPathBits
		if wc.WcFlags&abi.IB_WC_GRH != 0 {
			c.From |= 1 << 28
		}
	}
	if q.isRaw() && wc.WcFlags&abi.IB_WC_IP_CSUM_OK != 0 {
		c.Checks = ipv4OK
	}
	q.received(r, c)
}

// received is what a completion of a receive says of any message.
func received(r *fakeverbs.Recv, wc *abi.IbUverbsWc, solicited bool) *CQE {
	c := &CQE{Opcode: cqeRecv, Bytes: wc.ByteLen, Solicited: solicited, Data: r.Data}
	switch {
	case wc.Status != abi.IB_WC_SUCCESS:
		c.Opcode = cqeRespErr
		c.Syndrome, c.Vendor = syndrome(wc.Status)
	case wc.WcFlags&abi.IB_WC_WITH_IMM != 0:
		if c.Opcode = cqeRecvImm; wc.Opcode == abi.IB_WC_RECV_RDMA_WITH_IMM {
			c.Opcode = cqeWriteImm
		}
		binary.NativeEndian.PutUint32(c.Imm[:], wc.Ex)
	case wc.WcFlags&abi.IB_WC_WITH_INVALIDATE != 0:
		c.Opcode = cqeRecvInv
		binary.BigEndian.PutUint32(c.Imm[:], wc.Ex)
	}
	return c
}

// EnterError flushes what the device was told of. Of receives on an SRQ it knows nothing.
func (q *QP) EnterError() {
	q.qp.CurState = abi.IB_QPS_ERR
	q.qp.FlushTaken()
	sends := q.sends
	q.sends, q.busy = nil, nil
	for _, s := range sends {
		q.SendDone(s.Work, abi.IB_WC_WR_FLUSH_ERR, true)
	}
	if q.qp.SRQ != nil {
		q.qp.Kernel().Raise(q.qp.Cookie, abi.IB_EVENT_QP_LAST_WQE_REACHED)
		return
	}
	q.flushRecvs()
}

func (q *QP) flushRecvs() {
	for r, ok := q.rq.next(); ok; r, ok = q.rq.next() {
		q.RecvDone(r, abi.IbUverbsWc{Status: abi.IB_WC_WR_FLUSH_ERR}, false)
	}
}

// Look has a queue pair in the error state flush the receives that were posted since. The
// device finds them by itself, some time later: nothing is stored to a register for a
// receive.
func (q *QP) Look() {
	q.m.k.Lock()
	defer q.m.k.Unlock()
	if q.qp.CurState == abi.IB_QPS_ERR && q.qp.SRQ == nil {
		q.flushRecvs()
	}
}

// Fail completes the oldest send with any syndrome, which is the end of the QP. It reports
// whether there was one.
func (q *QP) Fail(syndrome, vendor uint8) bool {
	q.m.k.Lock()
	defer q.m.k.Unlock()
	w, ok := q.NextSend()
	if ok {
		q.sent(w, syndrome, vendor)
		q.EnterError()
	}
	return ok
}

// FailRecv is Fail for a receive.
func (q *QP) FailRecv(syndrome, vendor uint8) bool {
	q.m.k.Lock()
	defer q.m.k.Unlock()
	r, ok := q.NextRecv()
	if ok {
		q.received(r, &CQE{Opcode: cqeRespErr, Syndrome: syndrome, Vendor: vendor})
		q.EnterError()
	}
	return ok
}
