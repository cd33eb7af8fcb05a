package mlx5

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// QP is the device's side of a queue pair.
type QP struct {
	m        *model
	qp       *fakeverbs.QP
	sq       ring
	rq       rq
	record   uint64
	index    uint32 // user space's own, or 0xffffff
	uar      *uar
	register int // offset in the page, or -1: any of the UAR that begins at inPage
	inPage   int
	posted   uint32 // number of posted blocks of sends, free-running
	sends    fakeverbs.Line[*send]
	spare    []*send  // sends that were taken, to be used again
	reading  reader   // of the send that is being read
	keys     bool     // whether the last send changed a key
	role     uint32   // of a queue pair of DC, else 0
	streams  *streams // of a DCI, or nil
	key      uint64   // that requests to a DCT have
	scatters bool     // whether completions contain short messages
	// scattersAny means that completions of sends do too where not all sends have one.
	scattersAny bool
	Pacing      Pacing      // the last setting
	head        [block]byte // buffer for reading sends
	ahead       []byte      // blocks of sends that were read together
	aheadAt     uint32      // the first of them
	looker      *time.Timer // calls Look in the error state
}

// ring is a queue of blocks in user memory.
type ring struct {
	m      *model
	addr   uint64
	blocks uint32
}

// read copies blocks, beginning at a free-running index.
func (r *ring) read(what fmt.Stringer, from uint32, b []byte) {
	for len(b) > 0 {
		first := from & (r.blocks - 1)
		some := min(len(b), int(r.blocks-first)*block) // up to the end of the queue
		if err := r.m.k.User.Read(r.addr+uint64(first)*block, b[:some]); err != nil {
			r.m.blame(err, "%s: its send queue is gone", what)
		}
		from, b = from+uint32(some/block), b[some:]
	}
}

func (m *model) CreateQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	switch qp.Type {
	case abi.IB_UVERBS_QPT_RC, abi.IB_UVERBS_QPT_UC, abi.IB_UVERBS_QPT_UD, abi.IB_UVERBS_QPT_XRC_INI, abi.IB_UVERBS_QPT_DRIVER:
	case abi.IB_UVERBS_QPT_RAW_PACKET:
		if m.options.Infiniband || qp.SRQ != nil {
			return syscall.EOPNOTSUPP
		}
	default:
		return syscall.EOPNOTSUPP
	}
	const call = "QP_CREATE"
	in, err := input[abi.Mlx5IbCreateQp](m, call, r, 48)
	if err != nil {
		return err
	}
	q := &QP{m: m, qp: qp, record: in.DbAddr, index: in.Uidx, register: -1, sq: ring{m, 0, in.SqWqeCount},
		scatters:    in.Flags&abi.MLX5_QP_FLAG_SCATTER_CQE != 0,
		scattersAny: in.Flags&abi.MLX5_QP_FLAG_ALLOW_SCATTER_CQE != 0}
	if err := q.checkRole(&in); err != nil {
		return err
	}
	if q.role != roleDCT {
		if err := q.checkSizes(&in); err != nil {
			return err
		}
	}
	if err := q.checkIndex(in.Uidx); err != nil {
		return err
	}
	const flags = abi.MLX5_QP_FLAG_UAR_PAGE_INDEX | abi.MLX5_QP_FLAG_SCATTER_CQE | abi.MLX5_QP_FLAG_ALLOW_SCATTER_CQE
	if in.Flags&^0xfff != 0 {
		return syscall.EINVAL
	}
	m.wantZero(call, "flags beside those of UARs, short messages and its type", uint64(in.Flags&^(flags|q.role|q.streamFlag())))
	want := uint32(askECE)
	if m.options.NoECE {
		want = 0
	}
	if in.EceOptions != want {
		m.note("%s: the options of ECE are %#x, not %#x", call, in.EceOptions, want)
	}
	m.wantZero(call, "the reserved part", uint64(in.Reserved))
	if q.streams == nil {
		m.wantZero(call, "what belongs to a DCI with streams", uint64(in.DciStreams.LogNumConcurent)|uint64(in.DciStreams.LogNumErrored))
	}
	if q.role == roleDCT {
		return m.createTarget(q, &in, r)
	}
	resp := q.created()
	if err := q.takeUAR(&in, &resp); err != nil {
		return err
	}
	if err := q.pinQueues(call, &in); err != nil {
		return err
	}
	if err := m.pinRecord(call, in.DbAddr); err != nil {
		return err
	}
	if m.version == 1 {
		m.indexes[q.index] = true
	}
	qp.SetQueues(q)
	return answer(m, call, r, resp)
}

// created returns the answer of a creation, with the options that the device offers.
func (q *QP) created() (resp abi.Mlx5IbCreateQpResp) {
	if !q.m.options.NoECE {
		resp.EceOptions = askECE | ECE
	}
	return resp
}

// pinQueues pins the queues. The sends follow the receives. For raw packets they have separate memory.
func (q *QP) pinQueues(call string, in *abi.Mlx5IbCreateQp) error {
	m := q.m
	receives, sends := uint64(in.RqWqeCount)<<in.RqWqeShift, uint64(in.SqWqeCount)*block
	q.rq = rq{q: q, addr: in.BufAddr, entries: in.RqWqeCount, size: 1 << in.RqWqeShift}
	if q.isRaw() {
		q.sq.addr = in.SqBufAddr
		if err := m.pin(call, in.SqBufAddr, sends); err != nil {
			return err
		}
		return m.pin(call, in.BufAddr, receives)
	}
	m.wantZero(call, "the address of a raw packet's sends", in.SqBufAddr)
	q.sq.addr = in.BufAddr + receives
	return m.pin(call, in.BufAddr, receives+sends)
}

// checkSizes refuses sizes that the kernel refuses, and records those that are too small.
func (q *QP) checkSizes(in *abi.Mlx5IbCreateQp) error {
	c, receives := &q.qp.Cap, q.qp.SRQ == nil && q.qp.Cap.MaxRecvWr > 0
	switch {
	case in.SqWqeCount&(in.SqWqeCount-1) != 0, in.SqWqeCount > maxBlocks, c.MaxRecvWr > maxRecv:
		return syscall.EINVAL
	case !receives && (in.RqWqeCount != 0 || in.RqWqeShift != 0):
		return syscall.EINVAL
	case receives && (in.RqWqeCount == 0 || bits.OnesCount32(in.RqWqeCount) != 1 || in.RqWqeShift < 4 || in.RqWqeShift > 9):
		return syscall.EINVAL
	}
	if receives && (in.RqWqeCount < c.MaxRecvWr || 1<<in.RqWqeShift < 16*c.MaxRecvSge || in.RqWqeCount<<in.RqWqeShift < block) {
		q.m.note("QP_CREATE: %d receives of 2^%d bytes, and %d of %d SGEs are asked for", in.RqWqeCount, in.RqWqeShift, c.MaxRecvWr, c.MaxRecvSge)
	}
	if in.SqWqeCount < c.MaxSendWr {
		q.m.note("QP_CREATE: %d blocks for %d sends", in.SqWqeCount, c.MaxSendWr)
	}
	return nil
}

// checkIndex checks the index of a QP. With one version of completions user space chooses the index by which
// they identify the QP. The other version has no index.
func (q *QP) checkIndex(index uint32) error {
	switch {
	case q.m.badIndex(index):
		return syscall.EINVAL
	case q.m.isTaken(index):
		q.m.note("QP_CREATE: index %d is that of another QP", index)
	}
	return nil
}

func (m *model) isTaken(index uint32) bool { return m.version == 1 && !m.shared && m.indexes[index] }

func (q *QP) takeUAR(in *abi.Mlx5IbCreateQp, resp *abi.Mlx5IbCreateQpResp) error {
	m := q.m
	named := in.Flags&abi.MLX5_QP_FLAG_UAR_PAGE_INDEX != 0
	switch {
	case m.dynamic && !named:
		return syscall.EINVAL
	case m.dynamic:
		if q.uar, q.inPage = m.findUAR(in.BfregIndex); q.uar == nil {
			m.note("QP_CREATE names UAR %d, which is not the context's", in.BfregIndex)
			return syscall.EINVAL
		}
		return nil
	case named:
		m.note("QP_CREATE names UAR %d in a context without dynamic ones", in.BfregIndex)
	}
	m.wantZero("QP_CREATE", "the number of a register", uint64(in.BfregIndex))
	n := m.nextReg % m.static
	m.nextReg++
	resp.BfregIndex = n/uarPerPage*4 + n%uarPerPage
	uar := int(n / uarPerPage)
	perPage := m.perPage
	q.uar = m.uars[m.mmapKey(0, uar/perPage)]
	size := bfSize
	if m.options.NoBlueFlame {
		size = plainReg
	}
	q.register = uar%perPage*uarSize + uarSend + int(n%uarPerPage)*size
	return nil
}

// Pacing holds the parameters of a rate limit other than the rate.
type Pacing struct {
	Rate, MaxBurst uint32
	TypicalPacket  uint16
}

// ModifyPrivate reads the private bytes of a modification: the pacing of a rate limit, and options of
// enhanced connection establishment. It accepts the options that the device supports.
func (m *model) ModifyPrivate(qp *fakeverbs.QP, core *abi.IbUverbsModifyQp, rate uint32, r *ioctl.Request) error {
	const call = "MODIFY_QP"
	mask := core.AttrMask
	var in abi.Mlx5IbModifyQp
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	out, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	copy(abi.Bytes(&in), b)
	burst := &in.BurstInfo
	switch q := QPOf(qp); {
	case len(b) > 0 && len(b) < 12 || len(out) > 0 && len(out) < 4:
		return syscall.EINVAL
	case in.CompMask != 0 || burst.Reserved != 0:
		return syscall.EOPNOTSUPP
	case mask&abi.IB_QP_RATE_LIMIT == 0:
		if burst.MaxBurstSz != 0 || burst.TypicalPktSz != 0 {
			m.note("%s: a burst of %d bytes without a rate limit", call, burst.MaxBurstSz)
		}
	case (burst.MaxBurstSz != 0 || burst.TypicalPktSz != 0) && (rate == 0 || m.options.NoBursts), rate != 0 && (rate < minRate || rate > maxRate):
		return syscall.EINVAL
	case q != nil:
		q.Pacing = Pacing{rate, burst.MaxBurstSz, burst.TypicalPktSz}
	}
	resp := abi.Mlx5IbModifyQpResp{ResponseLength: uint32(len(abi.Bytes(new(abi.Mlx5IbModifyQpResp))))}
	if in.EceOptions != 0 {
		if m.options.NoECE {
			m.note("%s: options of ECE, which the device has not: %#x", call, in.EceOptions)
		}
		if len(out) == 0 {
			m.note("%s: options of ECE, and no room for the answer", call)
		}
		resp.EceOptions = in.EceOptions & (askECE | ECE)
	}
	if q := QPOf(qp); q != nil && q.IsTarget() {
		if err := m.modifyTarget(qp, core, out, &resp); err != nil {
			return err
		}
	}
	copy(out, abi.Bytes(&resp))
	return nil
}

// ModifyQP modifies a QP according to the core's table. RESET drops all posted work without completions.
func (m *model) ModifyQP(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	was := qp.CurState
	if qp.Table != nil { // an RSS queue pair has no states
		return syscall.ENOSYS
	}
	q := QPOf(qp)
	if q != nil && q.isInitiator() && !initiatorModifyIsOK(was, in) {
		return syscall.EINVAL
	}
	if err := (fakeverbs.Bare{}).ModifyQP(qp, in); err != nil {
		return err
	}
	switch {
	case qp.CurState == was, q != nil && q.IsTarget():
	case qp.CurState == abi.IB_QPS_RESET:
		q.posted, qp.Taken, q.keys = 0, nil, false
		q.sends.Clear()
		q.streams.reset()
		qp.Attrs.AltPortNum, qp.Attrs.PathMigState = 0, abi.IB_MIG_MIGRATED
		q.rq.reset()
	case was == abi.IB_QPS_RESET:
		for i, what := range []string{"receives", "sends"} {
			if v := m.load(q, qp.Num, q.record+uint64(4*i)); v != 0 {
				m.note("%v: its record of %s is %d when it leaves RESET", q, what, v)
			}
		}
	case qp.CurState == abi.IB_QPS_ERR:
		q.EnterError()
	case qp.CurState == abi.IB_QPS_RTR && q.isRaw():
		// The device's queue receives from INIT on, the queue pair from RTR on.
		if v := m.load(q, qp.Num, q.record); v != 0 {
			m.note("%v: its record of receives is %d before it is ready to receive", q, v)
		}
	}
	return nil
}

func (m *model) DestroyQP(qp *fakeverbs.QP) {
	if q := QPOf(qp); q != nil {
		if q.looker != nil {
			q.looker.Stop()
		}
		m.forgetRecord(q.record)
		delete(m.indexes, q.index)
	}
}

// doorbell reads the sends up to the index in the record. b is the start of the last request, or the whole
// request. It returns the last request if there is a new one.
func (q *QP) doorbell(b []byte) (last *send) {
	m := q.m
	rec := m.load(q, q.qp.Num, q.record+4)
	n := uint32(uint16(rec - q.posted))
	switch {
	case q.qp.CurState < abi.IB_QPS_RTS:
		m.note("%v: a send before it is ready to send", q)
		return nil
	case rec > 0xffff:
		m.note("%v: the record of sends is %#x, which has more than 16 bits", q, rec)
	case n == 0:
		m.note("%v: a doorbell for sends, and the record counts no new one", q)
		return nil
	case !q.hasRoom(n):
		return nil
	}
	first := len(q.sends.Waiting())
	q.takeSends(q.posted + n)
	fresh := q.sends.Waiting()[first:]
	last = fresh[len(fresh)-1]
	switch {
	case len(b) == 8 && !bytes.Equal(b, last.raw[:8]):
		m.note("%v: the doorbell is %x, and the last send begins with %x", q, b, last.raw[:8])
	case len(b) > 8:
		q.checkCopy(b, last, len(fresh))
	}
	if q.qp.CurState == abi.IB_QPS_ERR {
		q.EnterError()
	}
	return last
}

// hasRoom checks that the queue has room for a number of blocks.
func (q *QP) hasRoom(n uint32) bool {
	used := q.posted + n - q.oldest()
	if used > q.sq.blocks {
		q.m.note("%v: %d blocks of sends are not completed, of a queue of %d", q, used, q.sq.blocks)
	}
	return used <= q.sq.blocks
}

// checkCopy checks that a copy is equal to the only new send in the queue.
func (q *QP) checkCopy(b []byte, last *send, fresh int) {
	switch {
	case fresh != 1:
		q.m.note("%v: a copy of a send, with %d others that are new", q, fresh-1)
	case len(b) > bfSize/2:
		q.m.note("%v: a copy of %d bytes, to a register that takes %d", q, len(b), bfSize/2)
	case len(b) != len(last.raw):
		q.m.note("%v: a copy of %d bytes of a send that has %d", q, len(b), len(last.raw))
	case !sameBytes(b, last.raw):
		q.m.note("%v: the copy is not the send in the queue: %x, not %x", q, b, last.raw)
	}
}

// oldest returns the first block that has not completed.
func (q *QP) oldest() uint32 {
	switch {
	case len(q.qp.Taken) > 0:
		return q.posted - uint32(uint16(q.posted-q.qp.Taken[0].Index))
	case len(q.sends.Waiting()) > 0:
		return q.sends.Waiting()[0].at
	}
	return q.posted
}

// NextSend takes the oldest send. It completes a malformed send with an error, which ends the QP.
func (q *QP) NextSend() (*fakeverbs.Work, bool) {
	if len(q.sends.Waiting()) == 0 || q.qp.CurState != abi.IB_QPS_RTS {
		return nil, false
	}
	s := q.sends.Pop()
	if s.bad {
		q.sent(s.Work, 0x02, 0x68)
		q.EnterError()
		return nil, false
	}
	q.spare = append(q.spare, s)
	return s.Work, true
}

var codes = [...]uint8{
	abi.IB_UVERBS_WR_SEND_WITH_INV: 0x01, abi.IB_UVERBS_WR_RDMA_WRITE: 0x08, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM: 0x09,
	abi.IB_UVERBS_WR_SEND: 0x0a, abi.IB_UVERBS_WR_SEND_WITH_IMM: 0x0b, abi.IB_UVERBS_WR_RDMA_READ: 0x10,
	abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP: 0x11, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: 0x12,
	abi.IB_UVERBS_WR_TSO: 0x0e, abi.IB_UVERBS_WR_BIND_MW: 0x25, abi.IB_UVERBS_WR_LOCAL_INV: 0x25,
}

// code returns the device's number of an operation, or 0.
func code(opcode uint32) uint8 {
	if opcode >= uint32(len(codes)) {
		return 0
	}
	return codes[opcode]
}

// sent writes the completion of a send.
func (q *QP) sent(w *fakeverbs.Work, syndrome, vendor uint8) {
	c := &CQE{Opcode: cqeRequest, WQEOpcode: code(w.Opcode), Counter: uint16(w.Index), QPN: q.qp.Num, Queue: q.Queue(),
		Syndrome: syndrome, Vendor: vendor, Bytes: w.Len(), Data: w.Data}
	if syndrome != 0 {
		c.Opcode = cqeReqErr
	}
	CQOf(q.qp.SendCQ).complete(c)
}

// Queue returns the number by which completions identify the QP.
func (q *QP) Queue() uint32 {
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

func (q *QP) SendDone(w *fakeverbs.Work, status uint32, completes bool) {
	if q.streams.done(w, status) {
		status, completes = abi.IB_WC_WR_FLUSH_ERR, true
	}
	if !completes {
		return
	}
	syndrome, vendor := syndrome(status)
	q.sent(w, syndrome, vendor)
}

func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	if q.qp.SRQ == nil {
		return q.rq.next()
	}
	s := SRQOf(q.qp.SRQ)
	r, ok := s.take()
	if ok && q.m.options.SRQFaults && s.isMissing(r) { // the QP continues, as if there were no receive
		q.received(r, &CQE{Opcode: cqeRespErr, Syndrome: 0x22, Vendor: 0x93})
		s.faulted = int(r.Index)
		return nil, false
	}
	return r, ok
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
	c.QPN, c.Counter, c.Queue = q.qp.Num, uint16(r.Index), q.Queue()
	if s := q.qp.SRQ; s != nil {
		SRQOf(s).done(r.Index)
		if q.m.version == 0 {
			c.Queue = SRQOf(s).Num
		}
	} else {
		q.rq.done(r.Index)
	}
	if q.isRaw() && q.m.version == 1 && c.Opcode != cqeRespErr {
		c.QPN = c.Tag
	}
	CQOf(q.qp.RecvCQ).complete(c)
}

func (q *QP) RecvDone(r *fakeverbs.Recv, wc abi.IbUverbsWc, solicited bool) {
	c := received(r, &wc, solicited)
	if q.qp.Type == abi.IB_UVERBS_QPT_UD {
		sl := uint32(wc.Sl & 0xf)
		if !q.m.options.Infiniband {
			if sl = packetType(&r.Packet); r.Packet.Stripped {
				c.Checks[1], c.VLAN = 1, r.Packet.VLAN
			}
		}
		c.From, c.SLID, c.Path = wc.SrcQp&0xffffff|sl<<24, wc.Slid, wc.DlidPathBits
		if wc.WcFlags&abi.IB_WC_GRH != 0 {
			c.From |= 1 << 28
		}
	}
	if q.isRaw() && wc.Status == abi.IB_WC_SUCCESS {
		c.Checks, c.VLAN, c.Tag = checks(&r.Packet), r.Packet.VLAN, r.Packet.Tag
	}
	q.received(r, &c)
}

// packetType returns what completions have in place of the SL of a datagram over RoCE.
func packetType(p *fakeverbs.Packet) (typ uint32) {
	switch {
	case p.IPv6:
		typ = 1
	case p.IPv4:
		typ = 2
	}
	if p.UDP {
		typ |= 8
	}
	return typ
}

// received returns the part of a receive's completion that is common to all types of QPs.
func received(r *fakeverbs.Recv, wc *abi.IbUverbsWc, solicited bool) CQE {
	c := CQE{Opcode: cqeRecv, Bytes: wc.ByteLen, Solicited: solicited, Data: r.Data}
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

// EnterError flushes the requests that the device knows. It knows no receives of an SRQ. No error ends a DCT.
func (q *QP) EnterError() {
	if q.IsTarget() {
		return
	}
	q.qp.CurState = abi.IB_QPS_ERR
	q.qp.FlushTaken()
	sends := q.sends.Waiting()
	q.sends.Clear()
	for _, s := range sends {
		q.SendDone(s.Work, abi.IB_WC_WR_FLUSH_ERR, true)
	}
	if q.qp.SRQ != nil {
		q.qp.Kernel().Raise(q.qp.Cookie, abi.IB_EVENT_QP_LAST_WQE_REACHED)
		return
	}
	q.flushRecvs()
	q.lookLater(firstLook)
}

// While a queue pair is in the error state, the device checks for new receives repeatedly, at increasing
// intervals.
const firstLook, lastLook = time.Millisecond, 64 * time.Millisecond

func (q *QP) lookLater(after time.Duration) {
	if q.looker != nil {
		q.looker.Stop()
	}
	q.looker = time.AfterFunc(after, func() {
		q.m.k.Lock()
		defer q.m.k.Unlock()
		if q.qp.CurState == abi.IB_QPS_ERR {
			q.flushRecvs()
			q.lookLater(min(2*after, lastLook))
		}
	})
}

func (q *QP) flushRecvs() {
	for r, ok := q.rq.next(); ok; r, ok = q.rq.next() {
		q.RecvDone(r, abi.IbUverbsWc{Status: abi.IB_WC_WR_FLUSH_ERR}, false)
	}
}

// Look flushes receives that were posted to a queue pair in the error state. Receives have no doorbell
// register, so the device finds them some time later.
func (q *QP) Look() {
	q.m.k.Lock()
	defer q.m.k.Unlock()
	if q.qp.CurState == abi.IB_QPS_ERR && q.qp.SRQ == nil {
		q.flushRecvs()
	}
}

// Fail completes the oldest send with an arbitrary syndrome, which ends the QP. It reports whether there was
// one.
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

// look handles the doorbells of a page, of CQs or of sends, using only the records.
func (u *uar) look(ofCQs bool) {
	if ofCQs {
		for cq := range fakeverbs.Objects[*fakeverbs.CQ](u.m.k) {
			if q := CQOf(cq); q != nil && q.uar == u {
				q.look()
			}
		}
		return
	}
	for qp := range fakeverbs.Objects[*fakeverbs.QP](u.m.k) {
		if q := QPOf(qp); q != nil && q.uar == u {
			q.look()
		}
	}
}

// look arms the CQ if its record has changed. The first arm may leave the record unchanged, so a CQ that can
// have events is treated as armed once. It may then have one event that was not requested.
func (q *CQ) look() {
	v := q.m.load(q, q.Num, q.record+4)
	if q.cq.HasChannel() && (!q.everArmed || v != q.lastArm) {
		q.arm(v)
	}
}

// look takes the sends up to the index in the record.
func (q *QP) look() {
	rec := q.m.load(q, q.qp.Num, q.record+4)
	n := uint32(uint16(rec - q.posted))
	if n == 0 || q.qp.CurState < abi.IB_QPS_RTS || !q.hasRoom(n) {
		return
	}
	q.takeSends(q.posted + n)
	if q.qp.CurState == abi.IB_QPS_ERR {
		q.EnterError()
	}
	q.m.k.Ring(q.qp)
}
