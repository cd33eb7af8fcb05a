package efa

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// The operations of sends.
const (
	opSend  = 0
	opRead  = 1
	opWrite = 2
)

// The device's statuses.
const (
	statusOK      = 0
	flushed       = 1
	qpInternal    = 2
	unsupportedOp = 3
	invalidAH     = 4
	invalidLKey   = 5
	badLength     = 6
	badAddress    = 7
	aborted       = 8
	badDestQPN    = 9
	noReceive     = 10
	peerBadLength = 11
	badStatus     = 12
	unknownPeer   = 14
	unreachable   = 15
)

// statuses holds the device's numbers for those of the verbs.
var statuses = map[uint32]uint8{
	abi.IB_WC_SUCCESS: statusOK, abi.IB_WC_WR_FLUSH_ERR: flushed, abi.IB_WC_LOC_QP_OP_ERR: unsupportedOp, abi.IB_WC_LOC_PROT_ERR: invalidLKey,
	abi.IB_WC_LOC_LEN_ERR: badLength, abi.IB_WC_REM_ACCESS_ERR: badAddress, abi.IB_WC_REM_ABORT_ERR: aborted,
	abi.IB_WC_REM_INV_RD_REQ_ERR: badDestQPN, abi.IB_WC_RNR_RETRY_EXC_ERR: noReceive, abi.IB_WC_REM_INV_REQ_ERR: peerBadLength,
	abi.IB_WC_BAD_RESP_ERR: badStatus, abi.IB_WC_RESP_TIMEOUT_ERR: unreachable, abi.IB_WC_REM_OP_ERR: unknownPeer,
}

// status returns the device's number for a status of the verbs.
func status(verbs uint32) uint8 {
	if s, ok := statuses[verbs]; ok {
		return s
	}
	return qpInternal
}

// send is a send that the device has read.
type send struct {
	*fakeverbs.Work
	work   fakeverbs.Work // memory for the Work of the send
	id     uint64
	op     uint8
	ah     uint16
	status uint8 // of an error in the entry
}

// copied handles 64 bytes that were copied to the pages of the send queue.
func (q *QP) copied(offset int, b *[64]byte) {
	blocks := q.entries * q.wqe / 64
	next := (q.sqTold*(q.wqe/64) + q.fresh) % blocks
	if want := llqOffset + int(next)*64; offset != want {
		q.m.note("%v: the next 64 bytes of sends go to %#x, not %#x", q, offset, want)
		return
	}
	if q.fresh++; q.fresh > blocks {
		q.m.note("%v: sends are copied over others", q)
	}
	if most := uint32(q.m.options.MaxTxBatch); most > 0 && q.fresh > most {
		q.m.note("%v: %d bytes are copied without a doorbell, of %d", q, q.fresh*64, most*64)
	}
	copy(q.llq[next*64:], b[:])
}

// sendDoorbell handles a store to the doorbell of sends.
func (q *QP) sendDoorbell(_ int, v uint64) {
	m, o := q.m, &q.m.options
	n := uint32(uint16(uint32(v) - q.sqTold))
	fresh := q.fresh
	q.fresh = 0
	batch := uint32(o.MaxTxBatch) * 64 / q.wqe
	if o.MinSQWR != 0 && (batch == 0 || batch > q.entries-1) {
		batch = q.entries - 1
	}
	switch {
	case v>>16 != 0:
		m.note("%v: reserved bits of the doorbell of sends are set: %#x", q, v)
		return
	case n == 0:
		if !o.Late {
			m.note("%v: a doorbell of sends without a new one", q)
		}
		return
	case q.qp.CurState != abi.IB_QPS_RTS && q.qp.CurState != abi.IB_QPS_SQD:
		if !o.Late || q.qp.CurState != abi.IB_QPS_ERR && q.qp.CurState != abi.IB_QPS_RESET {
			m.note("%v: a doorbell of sends before it is ready to send", q)
		}
		return
	case n > q.entries-(q.sqTold-q.done):
		m.note("%v: %d sends are not completed, of a queue of %d", q, q.sqTold-q.done+n, q.entries)
		return
	case batch != 0 && n > batch && !o.Late:
		m.note("%v: a doorbell of %d sends, which takes %d at a time", q, n, batch)
	}
	if q.shared == nil && fresh != n*(q.wqe/64) {
		m.note("%v: a doorbell of %d sends after copies of %d bytes", q, n, fresh*64)
	}
	for range n {
		q.readSend()
	}
	m.k.Ring(q.qp)
}

// readSend reads the next send.
func (q *QP) readSend() {
	b := q.llq
	if q.shared != nil {
		b = q.shared.Bytes()[llqOffset:]
	}
	b = slices.Clone(b[q.sqTold%q.entries*q.wqe:][:q.wqe])
	q.m.k.CrossSend(q.qp, b)
	s := &send{}
	s.Work = &s.work
	c := &reader{send: s, q: q, b: b, at: q.sqTold}
	c.run()
	q.sqTold++
	q.sends.Push(s)
}

// reader reads a send and records all of its errors.
type reader struct {
	*send
	q  *QP
	b  []byte
	at uint32
}

// note records a violation. The send fails with a status, unless an earlier error has one.
func (c *reader) note(status uint8, format string, args ...any) {
	if c.status == statusOK {
		c.status = status
	}
	c.q.m.note("%v: send %d: "+format, append([]any{c.q, c.at}, args...)...)
}

func (c *reader) u16(at int) uint16 { return binary.LittleEndian.Uint16(c.b[at:]) }
func (c *reader) u32(at int) uint32 { return binary.LittleEndian.Uint32(c.b[at:]) }
func (c *reader) u64(at int) uint64 { return binary.LittleEndian.Uint64(c.b[at:]) }

// The bits of a send's two bytes of flags.
const (
	opMask   = 0xf
	hasImm   = 1 << 4
	isInline = 1 << 5
	isMeta   = 1 << 7

	phase    = 1 << 0
	firstBit = 1 << 2
	lastBit  = 1 << 3
	compReq  = 1 << 4

	maxHints = 1
)

func (c *reader) run() {
	q := c.q
	ctrl1, ctrl2 := c.b[2], c.b[3]
	c.op = ctrl1 & opMask
	c.flags(ctrl1, ctrl2)
	c.readID()
	c.Opcode, c.SGL = fakeverbs.NoOpcode, c.SGLRoom[:0]
	c.Flags = abi.IB_SEND_SIGNALED
	c.To = fakeverbs.Destination{QPN: uint32(c.u16(4)), QKey: c.u32(16)}
	c.ah = c.u16(12)
	if a := q.m.byNumber(q.qp.PD, c.ah); a != nil {
		c.To.AH = a.ah
	} else {
		c.note(invalidAH, "address %d, which the PD has not", c.ah)
	}
	if ctrl1&hasImm != 0 {
		c.Imm = bits.ReverseBytes32(c.u32(8))
	} else if v := c.u32(8); v != 0 {
		c.note(unsupportedOp, "immediate data %#x without its flag", v)
	}
	end := c.operation(ctrl1)
	c.wantZeros(end, len(c.b))
	c.wantZeros(15, 16)
	c.wantZeros(20, 26)
}

// flags checks the flags that do not depend on the operation.
func (c *reader) flags(ctrl1, ctrl2 uint8) {
	q := c.q
	const must = firstBit | lastBit | compReq
	lap := uint8(c.at / q.entries & 1)
	if q.anyLap {
		q.anyLap = false
		q.flip = lap != ctrl2&phase
	}
	if q.flip {
		lap ^= 1
	}
	switch {
	case ctrl1&^(opMask|hasImm|isInline|isMeta) != 0:
		c.note(unsupportedOp, "reserved bits of the flags are set: %#x", ctrl1)
	case ctrl1&isMeta == 0:
		c.note(unsupportedOp, "the bit of the first descriptor is missing: %#x", ctrl1)
	}
	switch {
	case ctrl2&phase != lap:
		c.note(qpInternal, "the phase is %d in a lap of %d: it is not written", ctrl2&phase, lap)
	case ctrl2&^(phase|must) != 0 || ctrl2&must != must:
		c.note(unsupportedOp, "the flags of its place are %#x, not %#x", ctrl2, must|lap)
	}
	if hints := c.b[14]; hints > maxHints {
		c.note(unsupportedOp, "unknown hints: %#x", hints)
	}
}

// readID reads the request's id. An id of 16 bits must not be that of another outstanding request.
func (c *reader) readID() {
	q := c.q
	c.id = uint64(c.u16(0))
	if q.ids64 {
		c.id |= uint64(c.u16(26))<<16 | uint64(c.u32(28))<<32
		return
	}
	c.wantZeros(26, 32)
	if q.ids[c.id] {
		c.note(qpInternal, "id %#x is that of another", c.id)
	}
	q.ids[c.id] = true
}

func (c *reader) wantZeros(from, to int) {
	if b := c.b[from:to]; !fakeverbs.IsZero(b) {
		c.note(unsupportedOp, "bytes %d to %d are not zero: %x", from, to-1, b)
	}
}

// operation reads what depends on the operation. It returns where the unused bytes begin.
func (c *reader) operation(ctrl1 uint8) (end int) {
	q, inline := c.q, ctrl1&isInline != 0
	imm := ctrl1&hasImm != 0
	switch {
	case c.op == opSend && imm:
		c.Opcode = abi.IB_UVERBS_WR_SEND_WITH_IMM
	case c.op == opSend:
		c.Opcode = abi.IB_UVERBS_WR_SEND
	case c.op == opRead && !imm && !inline && q.srd && q.m.has(abi.EFA_QUERY_DEVICE_CAPS_RDMA_READ):
		c.Opcode = abi.IB_UVERBS_WR_RDMA_READ
	case c.op == opWrite && q.srd && q.m.has(abi.EFA_QUERY_DEVICE_CAPS_RDMA_WRITE) && imm:
		c.Opcode = abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM
	case c.op == opWrite && q.srd && q.m.has(abi.EFA_QUERY_DEVICE_CAPS_RDMA_WRITE):
		c.Opcode = abi.IB_UVERBS_WR_RDMA_WRITE
	default:
		c.note(unsupportedOp, "the queue pair has no operation %d with the flags %#x", c.op, ctrl1)
		return len(c.b)
	}
	if c.op == opSend {
		return c.data(32, inline, maxSQSGE)
	}
	length := c.u32(32)
	c.RKey, c.RemoteAddr = c.u32(36), c.u64(40)
	if n := c.u16(6); !inline && n != maxRDMASGE {
		c.note(unsupportedOp, "%d SGEs, of %d", n, maxRDMASGE)
	}
	if inline && q.wqe != wideWQE {
		c.note(unsupportedOp, "a WRITE has data inline, in an entry of %d bytes", q.wqe)
		return len(c.b)
	}
	end = c.data(48, inline, maxRDMASGE)
	switch n := c.Len(); {
	case n != length:
		c.note(badLength, "%d bytes here, and %d there", n, length)
	case n > maxRDMA:
		c.fail(badLength)
	}
	return end
}

// fail makes the send fail without a violation.
func (c *reader) fail(status uint8) {
	if c.status == statusOK {
		c.status = status
	}
}

// data reads SGEs or inline data from a place on, and returns the end.
func (c *reader) data(start int, inline bool, most int) (end int) {
	n := int(c.u16(6))
	if inline {
		c.Flags |= abi.IB_SEND_INLINE
		room := inlineSize
		if c.q.wqe == wideWQE {
			room = inlineSizeEx
		}
		if room = min(room, int(c.q.m.inline()), len(c.b)-start); c.op == opSend {
			room = min(room, int(c.q.qp.Cap.MaxInlineData))
		}
		if n > room {
			c.note(badLength, "%d bytes inline, of %d", n, room)
			n = room
		}
		c.Inline = c.b[start:][:n]
		if n == 0 {
			c.Inline = []byte{}
		}
		return start + n
	}
	if most = min(most, max(int(c.q.qp.Cap.MaxSendSge), 1)); n > most {
		c.note(unsupportedOp, "%d SGEs, of %d", n, most)
		n = most
	}
	for i := range n {
		at := start + i*16
		s := fakeverbs.SGE{Length: c.u32(at), LKey: c.u32(at + 4), Addr: c.u64(at + 8)}
		if s.LKey > keyMask {
			c.note(invalidLKey, "a key of more than 24 bits: %#x", s.LKey)
		}
		c.SGL = append(c.SGL, s)
	}
	if c.op == opSend && c.Len() > maxMsg {
		c.fail(badLength)
	}
	return start + n*16
}

// Waiting returns the number of sends that the device has read and not taken.
func (m *model) Waiting(qp *fakeverbs.QP) int { return len(QPOf(qp).sends.Waiting()) }

// NextSend takes the oldest send. One with an error completes at once, and no other is affected.
func (q *QP) NextSend() (*fakeverbs.Work, bool) {
	for len(q.sends.Waiting()) > 0 {
		s := q.sends.Pop()
		if s.status != statusOK {
			q.sent(s, s.status)
			continue
		}
		q.wires[s.Work] = s
		return s.Work, true
	}
	return nil, false
}

// SendDone completes a send. All have a completion.
func (q *QP) SendDone(w *fakeverbs.Work, verbs uint32, _ bool) {
	if s := q.wires[w]; s != nil {
		delete(q.wires, w)
		q.sent(s, status(verbs))
	}
}

// sent writes the completion of a send.
func (q *QP) sent(s *send, status uint8) {
	q.done++
	delete(q.ids, s.id)
	CQOf(q.qp.SendCQ).complete(&CQE{ReqID: s.id, Status: status, Queue: sendQueue, Op: s.op, QPN: q.qp.Num}, q.sendPart)
	op := uint32(abi.IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND)
	switch s.op {
	case opRead:
		op = abi.IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ
	case opWrite:
		op = abi.IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE
	}
	q.count(op, status == statusOK)
}

// Fail completes the oldest send with a status of the device. It reports whether there was one.
func (q *QP) Fail(status uint8) bool {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	w, ok := q.NextSend()
	if ok {
		s := q.wires[w]
		delete(q.wires, w)
		q.sent(s, status)
	}
	return ok
}
