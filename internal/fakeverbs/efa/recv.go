package efa

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// recv is a receive that the device has read.
type recv struct {
	fakeverbs.Recv
	descs uint32
}

// The bits of a descriptor's last word.
const (
	firstDesc = 1 << 30
	lastDesc  = 1 << 31
)

// recvDoorbell handles a store to the doorbell of receives.
func (q *QP) recvDoorbell(_ int, v uint64) {
	if q.readDescs(v) > 0 {
		q.m.k.Ring(q.qp)
	}
	q.ahead = q.ahead && uint16(v) != uint16(q.rqTold)
}

// catchUp looks at the doorbell of receives if none is left: the store to it may be passed on later than that of a
// message which was sent after it.
func (q *QP) catchUp() {
	if len(q.recvs.Waiting()) > 0 || q.descs == 0 || q.m.k.Unseen == nil {
		return
	}
	if v, ok := q.m.k.Unseen(q.rqKey, q.rqAt); ok {
		q.ahead = q.readDescs(uint64(uint32(v))) > 0 || q.ahead
	}
}

// readDescs reads the descriptors up to the value of a doorbell, and returns their number.
func (q *QP) readDescs(v uint64) (n uint32) {
	m := q.m
	n = uint32(uint16(uint32(v) - q.rqTold))
	switch {
	case v>>16 != 0:
		m.note("%v: reserved bits of the doorbell of receives are set: %#x", q, v)
		return 0
	case n > maxRQWR && q.ahead: // catchUp has read beyond
		return 0
	case q.qp.CurState == abi.IB_QPS_RESET:
		if !m.options.Late {
			m.note("%v: a doorbell of receives in RESET", q)
		}
		return 0
	case n > q.descs-(q.rqTold-q.rqFree):
		m.note("%v: %d descriptors of receives are not completed, of a queue of %d", q, q.rqTold-q.rqFree+n, q.descs)
		return 0
	}
	for range n {
		q.readDesc()
	}
	if q.first != nil {
		m.note("%v: a doorbell of receives in the middle of one", q)
	}
	return n
}

// readDesc reads the next descriptor.
func (q *QP) readDesc() {
	b := slices.Clone(q.rq.Bytes()[q.rqTold%q.descs*descSize:][:descSize])
	q.m.k.CrossEntry(fakeverbs.EntryRQE, q.qp.Num, b)
	le := binary.LittleEndian
	ctrl := le.Uint32(b[12:])
	s := fakeverbs.SGE{Addr: le.Uint64(b), Length: uint32(le.Uint16(b[10:])), LKey: ctrl & keyMask}
	if ctrl&^(keyMask|firstDesc|lastDesc) != 0 {
		q.m.note("%v: descriptor %d: reserved bits are set: %#x", q, q.rqTold, ctrl)
	}
	if s.Length == 0 && s.LKey == 0 {
		q.m.note("%v: descriptor %d is empty", q, q.rqTold)
	}
	if isFirst := ctrl&firstDesc != 0; isFirst != (q.first == nil) {
		q.m.note("%v: descriptor %d: the bit of the first is %t", q, q.rqTold, isFirst)
	}
	if q.first == nil {
		q.first = &recv{}
		q.first.Index = uint32(le.Uint16(b[8:]))
	}
	q.first.SGL = append(q.first.SGL, s)
	q.first.descs++
	q.rqTold++
	if ctrl&lastDesc == 0 && q.first.descs < max(q.qp.Cap.MaxRecvSge, 1) {
		return
	}
	if ctrl&lastDesc == 0 {
		q.m.note("%v: descriptor %d: a receive has more than %d", q, q.rqTold, q.first.descs)
	}
	if slices.ContainsFunc(q.recvs.Waiting(), func(r *recv) bool { return r.Index == q.first.Index }) {
		q.m.note("%v: receive id %#x is that of another", q, q.first.Index)
	}
	q.recvs.Push(q.first)
	q.first = nil
}

// NextRecv takes the oldest receive. Receives are taken in the order of the ring.
func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	q.catchUp()
	if len(q.recvs.Waiting()) == 0 {
		return nil, false
	}
	r := q.recvs.Pop()
	q.rqFree += r.descs
	return &r.Recv, true
}

// OldestRecv returns the next receive without taking it.
func (q *QP) OldestRecv() (*fakeverbs.Recv, bool) {
	q.catchUp()
	if len(q.recvs.Waiting()) == 0 {
		return nil, false
	}
	return &q.recvs.Waiting()[0].Recv, true
}

// RecvDone completes a receive.
func (q *QP) RecvDone(r *fakeverbs.Recv, wc abi.IbUverbsWc, _ bool) {
	q.complete(r, &wc, false)
}

func (q *QP) complete(r *fakeverbs.Recv, wc *abi.IbUverbsWc, unsolicited bool) {
	c := &CQE{ReqID: uint64(r.Index), Status: status(wc.Status), Queue: recvQueue, QPN: q.qp.Num, AH: unknown, SrcQP: wc.SrcQp,
		Length: wc.ByteLen, SGID: r.From, Unsolicited: unsolicited}
	if a := q.m.address(q.qp.PD, r.From); a != nil {
		c.AH = a.num
	}
	if wc.Opcode == abi.IB_WC_RECV_RDMA_WITH_IMM {
		c.Op = opWrite
	}
	if wc.WcFlags&abi.IB_WC_WITH_IMM != 0 {
		c.HasImm, c.Imm = true, bits.ReverseBytes32(wc.Ex)
	}
	CQOf(q.qp.RecvCQ).complete(c, q.recvPart)
	if !unsolicited {
		q.count(abi.IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV, c.Status == statusOK)
	}
}

// CompleteUnsolicited completes a WRITE with immediate data that takes no receive.
func (q *QP) CompleteUnsolicited(from [16]byte, wc *abi.IbUverbsWc) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	q.complete(&fakeverbs.Recv{From: from}, wc, true)
}

// received completes a receive that was not taken.
func (q *QP) received(r *recv, c *CQE) {
	q.rqFree += r.descs
	c.ReqID, c.Queue, c.QPN, c.AH = uint64(r.Index), recvQueue, q.qp.Num, unknown
	CQOf(q.qp.RecvCQ).complete(c, q.recvPart)
	q.count(abi.IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV, c.Status == statusOK)
}
