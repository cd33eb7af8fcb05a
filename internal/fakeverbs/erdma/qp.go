package erdma

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// QP is the device's side of a queue pair.
type QP struct {
	e              *model
	qp             *fakeverbs.QP
	sq, rq         uint64 // addresses
	sqDepth        uint32 // in blocks
	rqDepth        uint32
	record         uint64
	sqTold, rqTold uint32 // indexes of the last doorbells, free-running
	sends          fakeverbs.Line[*send]
	spare          []*send   // sends that were taken, to be used again
	checking       sendCheck // of the send that is being read
	recvs          fakeverbs.Line[*fakeverbs.Recv]
	stopped        bool        // the kernel has stopped it, so the device ignores it
	entry          [entry]byte // buffer for reading receives
	blocks         []byte      // buffer for reading sends
	ahead          []byte      // blocks of sends that were read together
	aheadAt        uint32      // the first of them
}

func (q *QP) String() string { return fmt.Sprintf("QP %d", q.qp.Num) }

// checkCap checks the limits of a queue pair in the driver's order.
func (e *model) checkCap(qp *fakeverbs.QP) error {
	c := &qp.Cap
	switch {
	case c.MaxSendWr == 0 || c.MaxSendWr > maxWR || c.MaxRecvWr == 0 || c.MaxRecvWr > maxWR,
		c.MaxSendSge > maxSGE || c.MaxRecvSge > 1 || c.MaxInlineData > maxInline:
		return syscall.EINVAL
	case qp.Type != abi.IB_UVERBS_QPT_RC && !(qp.Type == abi.IB_UVERBS_QPT_UD && e.k.Device.IsRoCE()), qp.SRQ != nil:
		return syscall.EOPNOTSUPP
	}
	return nil
}

func (e *model) CreateQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	if err := e.checkCap(qp); err != nil {
		return err
	}
	in, err := input[abi.ErdmaUreqCreateQp](e, "QP_CREATE", r)
	if err != nil {
		return err
	}
	if in.Rsvd0 != 0 {
		e.note("QP_CREATE: the reserved word is %#x", in.Rsvd0)
	}
	q := &QP{e: e, qp: qp, sqDepth: fakeverbs.RoundPow2(4 * qp.Cap.MaxSendWr), rqDepth: fakeverbs.RoundPow2(qp.Cap.MaxRecvWr), record: in.DbRecordVa}
	offset := (q.sqDepth*entry + erdmaPage - 1) / erdmaPage * erdmaPage
	if err := e.pin("QP_CREATE", in.QbufVa, in.QbufLen, offset+q.rqDepth*entry); err != nil {
		return err
	}
	if err := e.pinRecord("QP_CREATE", in.DbRecordVa); err != nil {
		return err
	}
	q.sq, q.rq = in.QbufVa, in.QbufVa+uint64(offset)
	for i, queue := range []fakeverbs.CrossingKind{fakeverbs.EntrySQE, fakeverbs.EntryRQE} {
		if v, ok := e.loadAs(fakeverbs.Crossing{Call: "QP_CREATE", Object: qp.Num, Queue: queue}, q, q.record+uint64(8*i)); ok && v != 0 && !e.options.OldRecords {
			e.note("QP_CREATE: the record for %s of a new QP is %#x", []string{"sends", "receives"}[i], v)
		}
	}
	CQOf(qp.SendCQ).wantRecord("QP_CREATE")
	CQOf(qp.RecvCQ).wantRecord("QP_CREATE")
	e.keepRecord(q.record, q.String())
	qp.SetQueues(q)
	if !e.k.Device.IsRoCE() {
		qp.CurState = abi.IB_QPS_INIT // as a query shows it
	}
	const access = abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_READ
	qp.Attrs.PathMtu, qp.Attrs.QpAccessFlags = e.k.Device.Limits.Port.ActiveMtu, access // a query returns these, whatever was requested
	return answerWhole(e, "QP_CREATE", r, abi.ErdmaUrespCreateQp{QpId: qp.Num, NumSqe: q.sqDepth, NumRqe: q.rqDepth, RqOffset: offset})
}

// ModifyQP modifies a QP. On iWARP it supports ERR and the states that close a connection. Only the
// connection manager moves a QP to RTS. Other transitions are accepted and have no effect.
func (e *model) ModifyQP(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	if e.k.Device.IsRoCE() {
		return e.modifyRoCE(qp, in)
	}
	if in.AttrMask&abi.IB_QP_STATE == 0 {
		return nil
	}
	switch in.QpState {
	case abi.IB_QPS_RTS:
		if qp.CurState != abi.IB_QPS_RTS && qp.CurState != abi.IB_QPS_ERR {
			return syscall.EINVAL
		}
	case abi.IB_QPS_ERR:
		QPOf(qp).stop()
	case abi.IB_QPS_SQD, abi.IB_QPS_SQE:
		if qp.CurState == abi.IB_QPS_RTS {
			QPOf(qp).EnterError()
		}
	}
	return nil
}

// roceAttrs are the attributes that the driver passes to the device, and those that the core keeps.
// The others are checked and have no effect.
const roceAttrs = abi.IB_QP_STATE | abi.IB_QP_CUR_STATE | abi.IB_QP_QKEY | abi.IB_QP_AV | abi.IB_QP_SQ_PSN | abi.IB_QP_RQ_PSN |
	abi.IB_QP_DEST_QPN | abi.IB_QP_PORT | abi.IB_QP_PKEY_INDEX

// modifyRoCE modifies a QP on RoCE, according to the core's table.
func (e *model) modifyRoCE(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	if in.AttrMask&abi.IB_QP_PKEY_INDEX != 0 && in.PkeyIndex >= maxPKeys {
		return syscall.EINVAL
	}
	was, kept := qp.CurState, qp.Attrs
	if err := (fakeverbs.Bare{}).ModifyQP(qp, in); err != nil {
		return err
	}
	now := *in
	now.AttrMask &= roceAttrs
	qp.Attrs = kept
	qp.TakeOver(&now)
	switch q := QPOf(qp); {
	case qp.CurState == abi.IB_QPS_RESET:
		q.reset()
	case was == abi.IB_QPS_RESET:
		q.wantReset()
	case qp.CurState == abi.IB_QPS_ERR:
		q.stop()
	}
	return nil
}

// reset drops all requests without completions.
func (q *QP) reset() {
	q.sqTold, q.rqTold, q.qp.Taken, q.stopped = 0, 0, nil, false
	q.sends.Clear()
	q.recvs.Clear()
}

// wantReset checks that a QP that leaves RESET is like a new one. rdma-core's provider neither empties the
// queues of a QP nor resets its counters.
func (q *QP) wantReset() {
	for i, what := range []string{"sends", "receives"} {
		if v, ok := q.e.load(q, q.qp.Num, q.record+uint64(8*i)); ok && v != 0 && !q.e.options.OldRecords {
			q.e.note("%v: the record for %s is %#x when it leaves RESET", q, what, v)
		}
	}
}

// DestroyQP destroys a QP. It flushes nothing when the file is closed, because the process and its memory
// may be gone.
func (e *model) DestroyQP(qp *fakeverbs.QP) {
	q := QPOf(qp)
	if q == nil {
		return
	}
	if !e.k.IsClosed() {
		q.stop()
	}
	e.forgetRecord(q.record)
}

// stop handles the kernel's command that ends a QP. The device flushes the requests that it knows, and
// ignores later ones. The kernel issues the command once.
func (q *QP) stop() {
	if !q.stopped {
		q.EnterError()
		q.stopped = true
	}
}

// Store handles a store to a doorbell. All QPs and CQs of the context share the pages.
func (e *model) Store(_ *fakeverbs.Kernel, key int64, offset, size int, v uint64) {
	c := e.k.ShowCrossing(fakeverbs.Crossing{Kind: fakeverbs.Doorbell, Page: int(key / int64(fakeverbs.PageSize)), Offset: offset, Size: size, Value: v})
	if c.Drop {
		return
	}
	page := c.Page
	offset, size, v = c.Offset, c.Size, c.Value
	if size != 8 {
		e.note("a store of %d bytes at %#x of a page of doorbells, which take 8", size, offset)
		return
	}
	if page == cdb {
		e.storeCQ(offset, v)
		return
	}
	num := uint32(v >> 32)
	qp := e.k.Device.QP(num)
	switch {
	case qp != nil && qp.Kernel() == e.k && QPOf(qp) != nil:
	case e.options.Late: // the QP existed at the time of the store
		return
	default:
		e.note("a doorbell for QP %d, which is not there: %#016x at %#x", num, v, offset)
		return
	}
	if page == rdb {
		QPOf(qp).recvDoorbell(offset, v)
		return
	}
	QPOf(qp).sendDoorbell(offset, v)
	if e.options.Late {
		e.catchUpSends()
	}
}

// catchUpSends reads the records of all QPs if doorbells arrive late. Several QPs share a send doorbell, and
// the device sees only the last of their stores.
func (e *model) catchUpSends() {
	for qp := range fakeverbs.Objects[*fakeverbs.QP](e.k) {
		q := QPOf(qp)
		if q == nil || q.stopped || e.k.Device.IsRoCE() && qp.CurState < abi.IB_QPS_RTS {
			continue
		}
		if v, ok := e.load(q, qp.Num, q.record); ok && v != 0 {
			q.takeSendsTo(v)
		}
	}
}

func (e *model) storeCQ(offset int, v uint64) {
	num := uint32(v >> 32 & 0xffffff)
	q := cq(e.k.Device, num)
	switch {
	case q != nil && q.e == e:
	case e.options.Late:
		return
	default:
		e.note("a doorbell for CQ %d, which is not there: %#016x at %#x", num, v, offset)
		return
	}
	if want := int(num%512) * 8; offset != want {
		e.note("%v: the doorbell is at %#x, not %#x", q, want, offset)
	}
	if e.wantStored(q, q.Num, q.record, v) {
		q.arm(v)
	}
}

// wantStored checks that the record was written before the doorbell. It reports whether there is a record.
func (e *model) wantStored(what fmt.Stringer, object uint32, record, v uint64) bool {
	got, ok := e.load(what, object, record)
	if ok && got != v && !e.options.Late {
		e.note("%s: the doorbell says %#016x, and its record %#016x", what, v, got)
	}
	return ok
}

func (q *QP) sendDoorbell(offset int, v uint64) {
	e, o := q.e, &q.e.options
	want := int(q.qp.Num%32) * 128
	if o.SDBType == sdbEntry {
		want = int(o.SDBOffset) * 256
	}
	if offset != want {
		e.note("%v: the doorbell for sends is at %#x, not %#x", q, want, offset)
	}
	if v>>16&0xffff != 0 {
		e.note("%v: reserved bits of the doorbell for sends are set: %#016x", q, v)
	}
	if e.wantStored(q, q.qp.Num, q.record, v) && !e.options.Late {
		q.takeSendsTo(v)
	}
}

// takeSendsTo takes the sends up to the index in a doorbell or its record.
func (q *QP) takeSendsTo(v uint64) {
	e := q.e
	n := uint32(uint16(uint32(v) - q.sqTold))
	switch {
	case n == 0 && e.options.Late: // taken before because of the record
		return
	case n == 0:
		e.note("%v: a doorbell for sends without a new one", q)
		return
	case q.sqTold+n-q.oldest() > q.sqDepth:
		e.note("%v: %d blocks of sends are not completed, of a queue of %d", q, q.sqTold+n-q.oldest(), q.sqDepth)
		return
	}
	q.takeSends(q.sqTold + n)
	q.qp.Kernel().Ring(q.qp)
}

// recvDoorbell handles the doorbell of one receive. The half-word after the index is unused, and rdma-core
// doesn't set it.
func (q *QP) recvDoorbell(offset int, v uint64) {
	e := q.e
	if want := int(q.qp.Num%128) * 32; offset != want {
		e.note("%v: the doorbell for receives is at %#x, not %#x", q, want, offset)
	}
	if e.wantStored(q, q.qp.Num, q.record+8, v) {
		q.takeRecvs(v)
	}
}

// takeRecvs takes the receives up to the index in a doorbell or its record.
func (q *QP) takeRecvs(v uint64) {
	e := q.e
	n := uint32(uint16(uint32(v) - q.rqTold))
	switch {
	case n != 1 && !e.options.Late:
		e.note("%v: a doorbell for %d receives, which takes one", q, n)
		return
	case n == 0: // taken before because of the record
		return
	case uint32(len(q.recvs.Waiting()))+n > q.rqDepth:
		e.note("%v: %d receives are not completed, of a queue of %d", q, len(q.recvs.Waiting())+int(n), q.rqDepth)
		return
	}
	for ok := true; ok && n > 0; n-- {
		doorbell := v
		if n > 1 {
			doorbell = uint64(q.qp.Num)<<32 | uint64(uint16(q.rqTold+1))
		}
		ok = q.takeRecv(doorbell)
	}
}

// oldest returns the first block that has not completed.
func (q *QP) oldest() uint32 {
	switch {
	case len(q.qp.Taken) > 0:
		return q.sqTold - uint32(uint16(q.sqTold-q.qp.Taken[0].Index))
	case len(q.sends.Waiting()) > 0:
		return q.sends.Waiting()[0].at
	}
	return q.sqTold
}

// NextSend takes the oldest send. It completes a malformed send with an error, which ends the QP.
func (q *QP) NextSend() (*fakeverbs.Work, bool) {
	if len(q.sends.Waiting()) == 0 {
		return nil, false
	}
	s := q.sends.Pop()
	if s.bad {
		q.sent(s.Work, sendFormat)
		q.EnterError()
		return nil, false
	}
	q.spare = append(q.spare, s)
	return s.Work, true
}

// sent writes the completion of a send.
func (q *QP) sent(w *fakeverbs.Work, syndrome uint8) {
	CQOf(q.qp.SendCQ).complete(&CQE{Opcode: w.Code, QueueType: sendQueue, Syndrome: syndrome,
		Index: w.Index, QPN: q.qp.Num, Size: w.Len()})
}

func (q *QP) SendDone(w *fakeverbs.Work, status uint32, completes bool) {
	if completes {
		q.sent(w, q.syndrome(w, status))
	}
}

// catchUp reads the record of receives if doorbells arrive late.
func (q *QP) catchUp() {
	if len(q.recvs.Waiting()) == 0 && q.e.options.Late && !q.stopped {
		if v, ok := q.e.load(q, q.qp.Num, q.record+8); ok {
			q.takeRecvs(v)
		}
	}
}

func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	q.catchUp()
	if len(q.recvs.Waiting()) == 0 {
		return nil, false
	}
	r := q.recvs.Pop()
	return r, true
}

// OldestRecv returns the next receive without taking it.
func (q *QP) OldestRecv() (*fakeverbs.Recv, bool) {
	q.catchUp()
	if len(q.recvs.Waiting()) == 0 {
		return nil, false
	}
	return q.recvs.Waiting()[0], true
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

// EnterError flushes the requests that the device knows. It doesn't flush later ones until the kernel stops
// the QP. The real device may differ. rdma-core doesn't depend on it, because its provider posts nothing
// after a failure. For its own QPs the kernel has a command that makes the device read later requests.
func (q *QP) EnterError() {
	if q.stopped {
		return
	}
	q.qp.CurState = abi.IB_QPS_ERR
	q.qp.FlushTaken()
	for _, s := range q.sends.Waiting() {
		q.sent(s.Work, flushed)
	}
	for _, r := range q.recvs.Waiting() {
		CQOf(q.qp.RecvCQ).complete(&CQE{Opcode: receive, QueueType: recvQueue, Syndrome: flushed,
			Index: r.Index, QPN: q.qp.Num})
	}
	q.sends.Clear()
	q.recvs.Clear()
}

// Fail completes the oldest send with an arbitrary syndrome, which ends the QP. It reports whether there was
// one.
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

// The device's syndromes.
const (
	general     = 1
	recvFormat  = 2
	recvKey     = 3 // 3 to 7 are of the receiving end: bad key, outside, not permitted, another PD, wraps around
	recvAddr    = 4
	recvRight   = 5
	sendFormat  = 8
	sendKey     = 10 // 10 to 14 are the same of the sending end
	sendAddr    = 11
	sendRight   = 12
	sendPD      = 13
	sendWrap    = 14
	flushed     = 15
	retriesGone = 16
)

var sendSyndromes = map[uint32]uint8{
	abi.IB_WC_LOC_QP_OP_ERR: sendFormat, abi.IB_WC_LOC_PROT_ERR: sendKey, abi.IB_WC_LOC_ACCESS_ERR: sendKey,
	abi.IB_WC_REM_ACCESS_ERR: recvKey, abi.IB_WC_WR_FLUSH_ERR: flushed, abi.IB_WC_RETRY_EXC_ERR: retriesGone,
}

var recvSyndromes = map[uint32]uint8{
	abi.IB_WC_LOC_QP_OP_ERR: recvFormat, abi.IB_WC_LOC_PROT_ERR: recvKey, abi.IB_WC_LOC_ACCESS_ERR: recvKey,
	abi.IB_WC_LOC_LEN_ERR: recvAddr, abi.IB_WC_REM_ACCESS_ERR: recvRight, abi.IB_WC_WR_FLUSH_ERR: flushed,
}

// syndrome returns the device's number for a status of the verbs. For invalid local memory it determines
// the fault.
func (q *QP) syndrome(w *fakeverbs.Work, status uint32) uint8 {
	switch status {
	case abi.IB_WC_SUCCESS:
		return 0
	case abi.IB_WC_LOC_PROT_ERR, abi.IB_WC_LOC_ACCESS_ERR:
		for _, s := range w.SGL {
			if why := q.wrongWith(s, writesHere(w)); why != 0 {
				return why
			}
		}
	}
	if s, ok := sendSyndromes[status]; ok {
		return s
	}
	return general
}

// writesHere reports whether the device writes to local memory for a send.
func writesHere(w *fakeverbs.Work) bool {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_RDMA_READ, abi.IB_UVERBS_WR_RDMA_READ_WITH_INV,
		abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		return true
	}
	return false
}

// wrongWith returns the fault of an SGE, or 0 if it is valid.
func (q *QP) wrongWith(s fakeverbs.SGE, write bool) uint8 {
	for mr := range fakeverbs.Objects[*fakeverbs.MR](q.qp.Kernel()) {
		switch {
		case mr.Key != s.LKey:
		case s.Addr+uint64(s.Length) < s.Addr:
			return sendWrap
		case s.Addr < mr.Start || s.Addr-mr.Start+uint64(s.Length) > mr.Length:
			return sendAddr
		case write && mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0:
			return sendRight
		case mr.PD != q.qp.PD:
			return sendPD
		default:
			return 0
		}
	}
	return sendKey
}
