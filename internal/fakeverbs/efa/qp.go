package efa

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// QP is the device's side of a queue pair.
type QP struct {
	m           *model
	qp          *fakeverbs.QP
	srd         bool
	unsolicited bool // a WRITE with immediate data takes no receive
	ids64       bool // sends have ids of 64 bits
	sendPart    int  // of the CQs
	recvPart    int
	rnrLimited  bool // the program has set a number of retries without a receive

	wqe     uint32 // size of an entry of the send queue
	entries uint32
	llq     []byte       // the send queue as the device has it, or
	shared  *mmap.Region // in memory
	fresh   uint32       // blocks that were copied since the last doorbell
	sqTold  uint32       // sends that were announced, free-running
	done    uint32       // sends that were completed
	anyLap  bool         // the first phase after RESET is not known
	flip    bool         // it was 1

	descs  uint32 // descriptors of the receive queue
	rq     *mmap.Region
	rqTold uint32 // descriptors that were announced, free-running
	rqFree uint32 // descriptors of the receives that were taken, free-running
	rqKey  int64  // of the page with the doorbell of receives
	rqAt   int    // where it is
	ahead  bool   // receives were read whose doorbell is still to come
	first  *recv  // a receive whose last descriptor is missing

	counters [counterOpBits]*counter // by operation; a WRITE that takes a receive counts as that too

	keys  []int64 // of registers
	sends fakeverbs.Line[*send]
	recvs fakeverbs.Line[*recv]
	ids   map[uint64]bool // ids of the sends that are not completed
	wires map[*fakeverbs.Work]*send
}

const (
	wqeSize  = 64
	wideWQE  = 128
	descSize = 16
)

func (q *QP) String() string { return fmt.Sprintf("QP %d", q.qp.Num) }

// SRD reports whether the queue pair is of the type SRD, and not UD.
func (q *QP) SRD() bool { return q.srd }

// Unsolicited reports whether a WRITE with immediate data takes no receive.
func (q *QP) Unsolicited() bool { return q.unsolicited }

// RNRRetries returns how often the queue pair sends again what finds no receive. If the program has set no limit, the
// device decides, and goes on for ever here.
func (q *QP) RNRRetries() (n int, limited bool) {
	const always = 7
	n = int(q.qp.Attr().RnrRetry)
	return n, q.rnrLimited && n != always
}

func (m *model) CreateQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	in, err := m.checkQP(qp, r)
	if err != nil {
		return err
	}
	q := &QP{m: m, qp: qp, srd: qp.Type == abi.IB_UVERBS_QPT_DRIVER, unsolicited: in.Flags&abi.EFA_CREATE_QP_WITH_UNSOLICITED_WRITE_RECV != 0,
		ids64: in.Flags&abi.EFA_CREATE_QP_WITH_SQ_64_BIT_REQ_ID != 0, ids: make(map[uint64]bool), wires: make(map[*fakeverbs.Work]*send)}
	q.sendPart, q.recvPart = int(qp.Num)%int(m.subCQs()), int(qp.Num+1)%int(m.subCQs())
	if q.ids64 && !CQOf(qp.SendCQ).ids64 {
		m.note("QP_CREATE: ids of 64 bits, and the CQ has none")
	}
	q.size(in)
	resp := abi.EfaIbvCreateQpResp{SendSubCqIdx: uint16(q.sendPart), RecvSubCqIdx: uint16(q.recvPart)}
	if err := q.addSends(&resp); err != nil {
		return err
	}
	if err := q.addRecvs(&resp); err != nil {
		return err
	}
	qp.SetQueues(q)
	return answer(m, "QP_CREATE", r, resp)
}

// checkQP makes the driver's checks of a queue pair, in its order.
func (m *model) checkQP(qp *fakeverbs.QP, r *ioctl.Request) (in abi.EfaIbvCreateQp, err error) {
	const least, oldSize, size = 16, 16, 24
	flags := uint16(0)
	known, unknownMask := size, syscall.EOPNOTSUPP
	switch m.options.Kernel {
	case Linux61:
		known, unknownMask = oldSize, syscall.EINVAL
	case Linux72:
		flags = abi.EFA_CREATE_QP_WITH_UNSOLICITED_WRITE_RECV
	default:
		flags = abi.EFA_CREATE_QP_WITH_UNSOLICITED_WRITE_RECV | abi.EFA_CREATE_QP_WITH_SQ_64_BIT_REQ_ID
	}
	c := &qp.Cap
	switch {
	case qp.SRQ != nil, qp.Type != abi.IB_UVERBS_QPT_UD && qp.Type != abi.IB_UVERBS_QPT_DRIVER,
		qp.Flags&^abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0:
		return in, syscall.EOPNOTSUPP
	case c.MaxSendWr > maxSQWR, c.MaxRecvWr > maxRQWR, c.MaxSendSge > maxSQSGE, c.MaxRecvSge > maxRQSGE, c.MaxInlineData > m.inline():
		return in, syscall.EINVAL
	}
	if in, err = input[abi.EfaIbvCreateQp](m, r, least, known); err != nil {
		return in, err
	}
	switch {
	case in.CompMask != 0:
		return in, unknownMask
	case in.Reserved98 != [5]uint8{}:
		return in, syscall.EINVAL
	case in.Flags&^flags != 0,
		in.Flags&abi.EFA_CREATE_QP_WITH_UNSOLICITED_WRITE_RECV != 0 && !m.has(abi.EFA_QUERY_DEVICE_CAPS_UNSOLICITED_WRITE_RECV),
		in.Flags&abi.EFA_CREATE_QP_WITH_SQ_64_BIT_REQ_ID != 0 && !m.has(abi.EFA_QUERY_DEVICE_CAPS_SQ_64_BIT_REQ_ID),
		qp.Type == abi.IB_UVERBS_QPT_DRIVER && in.DriverQpType != abi.EFA_QP_DRIVER_TYPE_SRD:
		return in, syscall.EOPNOTSUPP
	case in.SqRingSize > maxLLQ:
		return in, syscall.EINVAL
	}
	return in, nil
}

// size finds out the sizes of the queues. The device learns the size of an entry from that of the ring alone.
func (q *QP) size(in abi.EfaIbvCreateQp) {
	c := &q.qp.Cap
	if q.entries = c.MaxSendWr; q.entries > 0 {
		q.wqe = in.SqRingSize / q.entries
	}
	if q.wqe != wqeSize && q.wqe != wideWQE || q.wqe*q.entries != in.SqRingSize || !isPow2(q.entries) || q.entries < uint32(q.m.options.MinSQWR) {
		q.m.note("QP_CREATE: a ring of %d bytes for %d sends, with a minimum of %d", in.SqRingSize, c.MaxSendWr, q.m.options.MinSQWR)
		q.wqe, q.entries = wqeSize, max(fakeverbs.RoundPow2(c.MaxSendWr), 1)
	}
	if q.wqe == wqeSize && c.MaxInlineData > inlineSize {
		q.m.note("QP_CREATE: entries of %d bytes for %d bytes inline", q.wqe, c.MaxInlineData)
	}
	q.descs = in.RqRingSize / descSize
	if q.descs > 0 && (in.RqRingSize%descSize != 0 || !isPow2(q.descs) || q.descs < c.MaxRecvSge*c.MaxRecvWr || q.descs > maxRQWR) {
		q.m.note("QP_CREATE: a ring of %d bytes for %d receives of %d SGEs", in.RqRingSize, c.MaxRecvWr, c.MaxRecvSge)
		q.descs = min(fakeverbs.RoundPow2(max(q.descs, 1)), maxRQWR)
	}
}

func isPow2(n uint32) bool { return n > 0 && n&(n-1) == 0 }

// llqOffset is where the send queue begins in its pages.
const llqOffset = 64

// addSends offers the pages of the send queue. In another process, nobody sees stores to the send queue: it is memory
// then, which the device reads when the doorbell rings.
func (q *QP) addSends(resp *abi.EfaIbvCreateQpResp) (err error) {
	m, length := q.m, llqOffset+int(q.entries*q.wqe)
	var key int64
	if m.k.Share == nil {
		q.llq = make([]byte, q.entries*q.wqe)
		key = m.addPage(&page{what: q, length: length, copies: q})
		q.keys = append(q.keys, key)
	} else if key, q.shared, err = m.addQueue(&q.qp.Mem, length); err != nil {
		return err
	}
	at := int(q.qp.Num) % maxQP * doorbellSize
	db := m.addPage(&page{what: q, offset: at, store: q.sendDoorbell, object: q.qp.Num, queue: fakeverbs.EntrySQE})
	q.keys = append(q.keys, db)
	resp.LlqDescOffset, resp.LlqDescMmapKey, resp.SqDbOffset, resp.SqDbMmapKey = llqOffset, uint64(key), uint32(at), uint64(db)
	return nil
}

// addRecvs offers the pages of the receive queue, if there is one.
func (q *QP) addRecvs(resp *abi.EfaIbvCreateQpResp) error {
	m := q.m
	if q.descs == 0 {
		return nil
	}
	key, ring, err := m.addQueue(&q.qp.Mem, int(q.descs*descSize))
	if err != nil {
		return err
	}
	q.rq = ring
	at := maxQP*doorbellSize + int(q.qp.Num)%maxQP*doorbellSize
	at %= fakeverbs.PageSize
	db := m.addPage(&page{what: q, offset: at, store: q.recvDoorbell, noWC: true, object: q.qp.Num, queue: fakeverbs.EntryRQE})
	q.keys = append(q.keys, db)
	q.rqKey, q.rqAt = db, at
	resp.RqMmapKey, resp.RqMmapSize, resp.RqDbOffset, resp.RqDbMmapKey = uint64(key), uint64(m.sizes[key]), uint32(at), uint64(db)
	return nil
}

// The attributes of a queue pair that the driver knows, to change and to ask for.
const (
	modifiable = abi.IB_QP_STATE | abi.IB_QP_CUR_STATE | abi.IB_QP_EN_SQD_ASYNC_NOTIFY | abi.IB_QP_PKEY_INDEX | abi.IB_QP_PORT |
		abi.IB_QP_QKEY | abi.IB_QP_SQ_PSN | abi.IB_QP_RNR_RETRY
	queryable = abi.IB_QP_STATE | abi.IB_QP_PKEY_INDEX | abi.IB_QP_PORT | abi.IB_QP_QKEY | abi.IB_QP_SQ_PSN | abi.IB_QP_CAP | abi.IB_QP_RNR_RETRY
)

// CheckQuery refuses attributes that the driver does not know.
func (m *model) CheckQuery(_ *fakeverbs.QP, mask uint32) error {
	if mask&^queryable != 0 {
		return syscall.EOPNOTSUPP
	}
	return nil
}

type transition struct{ from, to uint8 }

const (
	first  = abi.IB_QP_PKEY_INDEX | abi.IB_QP_PORT | abi.IB_QP_QKEY
	keyed  = abi.IB_QP_CUR_STATE | abi.IB_QP_QKEY
	notify = abi.IB_QP_EN_SQD_ASYNC_NOTIFY
)

// srdMoves holds the attributes that a transition of an SRD queue pair must and may have. Those to RESET and ERR
// have none.
var srdMoves = map[transition]struct{ must, may uint32 }{
	{abi.IB_QPS_RESET, abi.IB_QPS_INIT}: {must: first},
	{abi.IB_QPS_INIT, abi.IB_QPS_INIT}:  {may: first},
	{abi.IB_QPS_INIT, abi.IB_QPS_RTR}:   {may: abi.IB_QP_PKEY_INDEX | abi.IB_QP_QKEY},
	{abi.IB_QPS_RTR, abi.IB_QPS_RTS}:    {must: abi.IB_QP_SQ_PSN, may: keyed | abi.IB_QP_RNR_RETRY},
	{abi.IB_QPS_RTS, abi.IB_QPS_RTS}:    {may: keyed},
	{abi.IB_QPS_RTS, abi.IB_QPS_SQD}:    {may: notify},
	{abi.IB_QPS_SQD, abi.IB_QPS_RTS}:    {may: keyed},
	{abi.IB_QPS_SQD, abi.IB_QPS_SQD}:    {may: abi.IB_QP_PKEY_INDEX | abi.IB_QP_QKEY},
	{abi.IB_QPS_SQE, abi.IB_QPS_RTS}:    {may: keyed},
}

func srdModifyIsOK(from, to uint8, mask uint32) bool {
	if mask&abi.IB_QP_CUR_STATE != 0 && (from < abi.IB_QPS_RTR || from > abi.IB_QPS_SQE) {
		return false
	}
	n, ok := srdMoves[transition{from, to}]
	if to == abi.IB_QPS_RESET || to == abi.IB_QPS_ERR {
		n, ok = struct{ must, may uint32 }{}, to == abi.IB_QPS_RESET || from != abi.IB_QPS_RESET
	}
	return ok && mask&n.must == n.must && mask&^(n.must|n.may|abi.IB_QP_STATE) == 0
}

func (m *model) ModifyQP(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	mask := in.AttrMask
	if mask&^modifiable != 0 {
		return syscall.EOPNOTSUPP
	}
	from, to := qp.CurState, qp.CurState
	if mask&abi.IB_QP_CUR_STATE != 0 {
		from = in.CurQpState
	}
	if mask&abi.IB_QP_STATE != 0 {
		to = in.QpState
	}
	isOK := fakeverbs.ModifyIsOK(from, to, abi.IB_UVERBS_QPT_UD, mask)
	if qp.Type == abi.IB_UVERBS_QPT_DRIVER {
		isOK = srdModifyIsOK(from, to, mask)
	}
	switch {
	case !isOK:
		return syscall.EINVAL
	case mask&abi.IB_QP_PKEY_INDEX != 0 && in.PkeyIndex != 0, // the core has refused another port
		mask&abi.IB_QP_RNR_RETRY != 0 && !m.has(abi.EFA_QUERY_DEVICE_CAPS_RNR_RETRY):
		return syscall.EOPNOTSUPP
	}
	qp.CurState = to
	qp.TakeOver(in)
	q := QPOf(qp)
	q.rnrLimited = q.rnrLimited || mask&abi.IB_QP_RNR_RETRY != 0
	switch {
	case mask&abi.IB_QP_STATE == 0:
	case to == abi.IB_QPS_RESET:
		q.reset()
	case to == abi.IB_QPS_ERR && !m.options.FlushAtDestroy:
		q.EnterError()
	}
	return nil
}

// reset drops all requests without completions. The device begins at the start of its queues again, and with the
// phase of the first send then: rdma-core goes on with the phase that it had, and no source says what the device
// expects.
func (q *QP) reset() {
	q.qp.Taken, q.first = nil, nil
	q.sends.Clear()
	q.recvs.Clear()
	q.sqTold, q.done, q.rqTold, q.rqFree, q.fresh, q.ahead = 0, 0, 0, 0, 0, false
	clear(q.ids)
	clear(q.wires)
	q.anyLap = true
}

// DestroyQP destroys a QP. Its requests are flushed, unless the file is closed or the device is gone: then the
// process and its memory may be gone, or the CQ.
func (m *model) DestroyQP(qp *fakeverbs.QP) {
	q := QPOf(qp)
	if q == nil {
		return
	}
	if !m.k.IsClosed() && qp.CurState != abi.IB_QPS_RESET {
		q.flush()
	}
	for _, key := range q.keys {
		m.removePage(key)
	}
}

// EnterError moves the queue pair to the error state, and flushes its requests.
func (q *QP) EnterError() {
	q.qp.CurState = abi.IB_QPS_ERR
	q.flush()
}

// Drop implements the core's interface for errors that are those of a request alone.
func (q *QP) Drop() {}

func (q *QP) flush() {
	q.qp.FlushTaken()
	for _, s := range q.sends.Waiting() {
		q.sent(s, flushed)
	}
	for _, r := range q.recvs.Waiting() {
		q.received(r, &CQE{Status: flushed})
	}
	q.sends.Clear()
	q.recvs.Clear()
}
