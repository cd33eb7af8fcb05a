package rxe

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// QP is rxe's side of a QP's queues.
type QP struct {
	qp     *fakeverbs.QP
	sq, rq *ring

	// asleep is set from SQD to RTS until the next doorbell. The driver does not look for the sends that
	// were posted in SQD.
	asleep bool
}

func (m *model) CreateQP(qp *fakeverbs.QP, r *ioctl.Request) error {
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 || !fakeverbs.HasRoom(r, 32) {
		return syscall.EINVAL
	}
	switch {
	case qp.Flags&^abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0:
		return syscall.EOPNOTSUPP
	case qp.Type != abi.IB_UVERBS_QPT_RC && qp.Type != abi.IB_UVERBS_QPT_UC && qp.Type != abi.IB_UVERBS_QPT_UD:
		return syscall.EOPNOTSUPP
	case !capOK(&qp.Cap, qp.SRQ != nil):
		return syscall.EINVAL
	}
	var resp abi.RxeCreateQpResp
	var err error
	q := &QP{qp: qp}
	payload := max(qp.Cap.MaxSendSge*sgeSize, qp.Cap.MaxInlineData)
	if q.sq, resp.SqMi, err = m.newRing(fakeverbs.Seam{Object: qp.Num, Kind: fakeverbs.EntrySQE, UD: qp.Type == abi.IB_UVERBS_QPT_UD}, &qp.Mem, qp.Cap.MaxSendWr, sendSize+payload); err != nil {
		return err
	}
	qp.Cap.MaxSendWr, qp.Cap.MaxSendSge, qp.Cap.MaxInlineData = q.sq.mask, payload/sgeSize, payload
	if qp.SRQ == nil {
		if q.rq, resp.RqMi, err = m.newRing(fakeverbs.Seam{Object: qp.Num, Kind: fakeverbs.EntryRQE}, &qp.Mem, qp.Cap.MaxRecvWr, recvSize(qp.Cap.MaxRecvSge)); err != nil {
			return err
		}
		qp.Cap.MaxRecvWr = q.rq.mask
	}
	qp.SetQueues(q)
	const mtu256 = 1
	qp.Attrs.PathMtu, qp.Attrs.Dest.IsGlobal = mtu256, 1 // what a query returns until they are set
	return fakeverbs.AnswerDriver(r, resp)
}

func capOK(c *abi.IbUverbsQpCap, srq bool) bool {
	recv := srq || c.MaxRecvWr <= maxWR && c.MaxRecvSge <= maxSGE
	return recv && c.MaxSendWr <= maxWR && c.MaxSendSge <= maxSGE && c.MaxInlineData <= maxInline
}

func (*model) Waiting(qp *fakeverbs.QP) int { return int(QPOf(qp).sq.count()) }

// Doorbell flushes the new requests of a QP in the error state, receives too. Otherwise the test acts as the
// driver.
func (*model) Doorbell(qp *fakeverbs.QP) error {
	q := QPOf(qp)
	q.sq.ReadRecord(q.sq.producer)
	switch {
	case qp.CurState < abi.IB_QPS_RTS:
		return syscall.EINVAL
	case qp.CurState == abi.IB_QPS_RTS:
		q.asleep = false
	case qp.CurState == abi.IB_QPS_ERR:
		q.flush()
	}
	return nil
}

// EnterError moves the QP to the error state and flushes both queues, also if it is already in that state.
func (q *QP) EnterError() {
	q.qp.CurState = abi.IB_QPS_ERR
	if q.rq == nil { // an SRQ is not flushed
		q.qp.Kernel().Raise(q.qp.Cookie, abi.IB_EVENT_QP_LAST_WQE_REACHED)
	}
	q.flush()
}

func (q *QP) flush() {
	for q.rq != nil {
		e, ok := takeRecv(q.rq)
		if !ok {
			break
		}
		CQOf(q.qp.RecvCQ).complete(q.flushed(e.WrId), false)
	}
	q.qp.FlushTaken()
	for e, ok := takeSend(q.sq); ok; e, ok = takeSend(q.sq) {
		CQOf(q.qp.SendCQ).complete(q.flushed(e.Wr.WrId), false)
	}
}

// flushed returns the completion of a flushed request. Its opcode is 0, as for all failures of rxe.
func (q *QP) flushed(id uint64) *abi.IbUverbsWc {
	return &abi.IbUverbsWc{WrId: id, Status: abi.IB_WC_WR_FLUSH_ERR, QpNum: q.qp.Num}
}

// reset removes all requests from the queues without completions. It doesn't reset the indexes.
func (q *QP) reset() {
	q.qp.Taken = nil
	for _, ring := range []*ring{q.sq, q.rq} {
		for ring != nil && ring.head() != nil {
			ring.drop()
		}
		if ring != nil {
			clear(ring.data)
		}
	}
}

// ModifyQP makes the checks of rxe_qp_chk_attr and __qp_chk_state, changes the state of the QP, and then
// stores the attributes in the mask.
func (*model) ModifyQP(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	if err := checkAttr(qp, in); err != nil {
		return err
	}
	if in.AttrMask&abi.IB_QP_STATE != 0 {
		from := qp.CurState
		if in.AttrMask&abi.IB_QP_CUR_STATE != 0 {
			from = in.CurQpState
		}
		if !fakeverbs.ModifyIsOK(from, in.QpState, qp.Type, in.AttrMask) {
			return syscall.EINVAL
		}
		QPOf(qp).enter(in.QpState)
	}
	qp.TakeOver(in)
	return nil
}

func checkAttr(qp *fakeverbs.QP, in *abi.IbUverbsModifyQp) error {
	has := func(bit uint32) bool { return in.AttrMask&bit != 0 }
	access := has(abi.IB_QP_ACCESS_FLAGS) && (qp.Type == abi.IB_UVERBS_QPT_UD || in.QpAccessFlags&^access != 0)
	if access || has(abi.IB_QP_PATH_MTU) && in.PathMtu > 5 ||
		has(abi.IB_QP_MAX_QP_RD_ATOMIC) && in.MaxRdAtomic > maxRDAtom || has(abi.IB_QP_TIMEOUT) && in.Timeout > 31 {
		return syscall.EINVAL
	}
	return nil
}

func (q *QP) enter(state uint8) {
	q.asleep = q.qp.CurState == abi.IB_QPS_SQD && state == abi.IB_QPS_RTS
	q.qp.CurState = state
	switch state {
	case abi.IB_QPS_RESET:
		q.reset()
	case abi.IB_QPS_ERR:
		q.EnterError()
	case abi.IB_QPS_SQD:
		q.qp.Kernel().Raise(q.qp.Cookie, abi.IB_EVENT_SQ_DRAINED) // the model never has sends in progress
	}
}

// NextSend takes the oldest send. The send occupies its slot in the queue until it completes.
func (q *QP) NextSend() (*fakeverbs.Work, bool) {
	if q.asleep || q.sq.count() <= uint32(len(q.qp.Taken)) {
		return nil, false
	}
	s := &q.qp.Kernel().Model.(*model).send
	q.sq.peekSend(uint32(len(q.qp.Taken)), s)
	q.check(s)
	w := q.qp.Kernel().NewWork()
	w.ID, w.Opcode, w.Flags, w.Imm = s.Wr.WrId, s.Wr.Opcode, s.Wr.SendFlags, s.Wr.Ex
	if !operationOf(w.Opcode).exists {
		w.Opcode = fakeverbs.NoOpcode
	}
	if q.qp.Flags&abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL != 0 {
		w.Flags |= abi.IB_SEND_SIGNALED
	}
	q.arm(w, s)
	length := min(int(s.Dma.Length), len(s.Payload))
	switch {
	case w.Flags&abi.IB_SEND_INLINE != 0 && !fetches(w.Opcode), w.Opcode == abi.IB_UVERBS_WR_ATOMIC_WRITE:
		w.SetInline(s.Payload[:length])
	case w.Flags&abi.IB_SEND_INLINE != 0 && length > 0: // the driver takes the data for SGEs, and their key for one
		w.SGL = append(w.SGLRoom[:0], fakeverbs.SGE{Length: uint32(length)})
	default:
		w.SGL = w.SGLRoom[:0]
		for i := range min(s.Dma.NumSge, maxSGE) {
			w.SGL = append(w.SGL, s.sge(i))
		}
	}
	return w, true
}

func fetches(op uint32) bool {
	return op == abi.IB_UVERBS_WR_RDMA_READ || op == abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP || op == abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD
}

func (s *Send) sge(i uint32) fakeverbs.SGE {
	b := s.Payload[sgeSize*i:]
	return fakeverbs.SGE{Addr: u64(b, 0), Length: u32(b, 8), LKey: u32(b, 12)}
}

// arm reads the part of a send that depends on the opcode, and the destination of a datagram.
func (q *QP) arm(w *fakeverbs.Work, s *Send) {
	switch w.Opcode {
	case abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP, abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD:
		r := WR[abi.RxeSendWrAtomic](s)
		w.RemoteAddr, w.RKey, w.Compare, w.Swap = s.Iova, r.Rkey, r.CompareAdd, r.Swap
	case abi.IB_UVERBS_WR_BIND_MW:
		r := WR[abi.RxeSendWrMw](s)
		w.Bind = fakeverbs.Binding{Addr: r.Addr, Length: r.Length, LKey: r.MrLkey, RKey: r.MwRkey, NewRKey: r.Rkey, Access: r.Access}
	case abi.IB_UVERBS_WR_FLUSH:
		r := WR[abi.RxeSendWrFlush](s)
		w.RemoteAddr, w.RKey, w.FlushTypes, w.Flush = s.Iova, r.Rkey, r.Type, s.Dma.Resid
		if r.Level == abi.IB_FLUSH_MR {
			w.Flush = 0
		}
	case abi.IB_UVERBS_WR_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM:
		if q.qp.Type == abi.IB_UVERBS_QPT_UD {
			r := WR[abi.RxeSendWrUd](s)
			w.To = fakeverbs.Destination{QPN: r.RemoteQpn, QKey: r.RemoteQkey, AH: ah(q.qp.Kernel(), r.AhNum)}
		}
	default:
		w.RemoteAddr, w.RKey = s.Iova, WR[abi.RxeSendWrRdma](s).Rkey
	}
}

// ah returns the AH with a number, or nil.
func ah(k *fakeverbs.Kernel, num uint32) *fakeverbs.AH {
	for ah := range fakeverbs.Objects[*fakeverbs.AH](k) {
		if ah.Num == num {
			return ah
		}
	}
	return nil
}

// SendDone completes a send. The opcode of a failure is 0, as in rxe.
func (q *QP) SendDone(w *fakeverbs.Work, status uint32, completes bool) {
	q.sq.drop()
	if !completes {
		return
	}
	wc := &abi.IbUverbsWc{WrId: w.ID, Status: status, QpNum: q.qp.Num}
	if status == abi.IB_WC_SUCCESS {
		wc.Opcode, wc.ByteLen = operationOf(w.Opcode).wc, w.Len()
		if w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM || w.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM {
			wc.WcFlags = abi.IB_WC_WITH_IMM
		}
	}
	CQOf(q.qp.SendCQ).complete(wc, false)
}

func (q *QP) NextRecv() (*fakeverbs.Recv, bool) {
	r, ok := q.takeRecv()
	if !ok {
		return nil, false
	}
	return r.recv(q.qp.Kernel()), true
}

func (r *Recv) recv(k *fakeverbs.Kernel) *fakeverbs.Recv {
	to := k.NewRecv()
	to.ID = r.WrId
	to.SGL = to.SGLRoom[:0]
	for _, g := range r.SGE[:min(r.Dma.NumSge, maxSGE)] {
		to.SGL = append(to.SGL, fakeverbs.SGE{Addr: g.Addr, Length: g.Length, LKey: g.Lkey})
	}
	return to
}

// OldestRecv returns the next receive without taking it.
func (q *QP) OldestRecv() (*fakeverbs.Recv, bool) {
	ring := q.rq
	if ring == nil {
		ring = SRQOf(q.qp.SRQ).ring
	}
	var r Recv
	ok := ring.peekRecv(&r)
	return r.recv(q.qp.Kernel()), ok
}

func (q *QP) RecvDone(_ *fakeverbs.Recv, wc abi.IbUverbsWc, solicited bool) {
	CQOf(q.qp.RecvCQ).complete(&wc, solicited)
}

// Send is a send that user space has written.
type Send struct {
	abi.RxeSendWqe
	// Payload holds the SGEs or inline data.
	Payload [maxInline]byte
}

// WR reads the part of a send that depends on the opcode.
func WR[T any](s *Send) (wr T) {
	copy(abi.Bytes(&wr), s.Wr.Wr[:])
	return wr
}

// Recv is a receive that user space has written.
type Recv struct {
	abi.RxeRecvWqe
	SGE [maxSGE]abi.RxeSge // the first Dma.NumSge count
}

// TakeSend takes the oldest send and frees its slot, as the driver does after the acknowledgement.
func (q *QP) TakeSend() (Send, bool) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	return takeSend(q.sq)
}

// TakeRecv takes the oldest receive of the QP or its SRQ, for an arriving message.
func (q *QP) TakeRecv() (Recv, bool) {
	q.qp.Kernel().Lock()
	defer q.qp.Kernel().Unlock()
	return copied(q.takeRecv())
}

// copied returns a receive that stays valid, or an empty one.
func copied(r *Recv, ok bool) (Recv, bool) {
	if !ok {
		return Recv{}, false
	}
	return *r, true
}

func (q *QP) takeRecv() (*Recv, bool) {
	if q.rq == nil {
		return SRQOf(q.qp.SRQ).take()
	}
	r, ok := takeRecv(q.rq)
	if ok {
		q.rq.check(r, q.qp.Cap.MaxRecvSge)
	}
	return r, ok
}

func takeSend(q *ring) (s Send, ok bool) {
	if ok = q.peekSend(0, &s); ok {
		q.drop()
	}
	return s, ok
}

// peekSend reads the send that is n sends after the oldest.
func (q *ring) peekSend(n uint32, s *Send) bool {
	if n >= q.count() {
		return false
	}
	entry := q.ReadEntry(q.at(q.index + n))
	copy(s.Payload[:], entry[copy(abi.Bytes(&s.RxeSendWqe), entry):])
	return true
}

// takeRecv takes the oldest receive, which is valid until the next one.
func takeRecv(q *ring) (*Recv, bool) {
	q.ReadRecord(q.producer)
	e := q.head()
	if e == nil {
		return nil, false
	}
	if q.recv == nil {
		q.recv = new(Recv)
	}
	q.recv.fill(q.ReadEntry(e))
	q.drop()
	return q.recv, true
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

// Carry completes a send as do_complete does. An error always completes, and moves the QP to the error
// state.
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
		wc.Opcode, wc.ByteLen = operationOf(s.Wr.Opcode).wc, s.Dma.Length
		if s.Wr.Opcode == abi.IB_UVERBS_WR_SEND_WITH_IMM || s.Wr.Opcode == abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM {
			wc.WcFlags = abi.IB_WC_WITH_IMM
		}
		CQOf(q.qp.SendCQ).complete(&wc, false)
	}
	return true
}

// operation is an operation of the driver: the opcode of its completions, and whether it refers to memory of the
// peer. Packets of the first try have the address beside the operation. Those of retries have the address in the
// operation.
type operation struct {
	exists bool
	wc     uint32
	remote bool
}

// operations holds the operations by opcode.
var operations = [...]operation{
	abi.IB_UVERBS_WR_RDMA_WRITE:           {true, abi.IB_WC_RDMA_WRITE, true},
	abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:  {true, abi.IB_WC_RDMA_WRITE, true},
	abi.IB_UVERBS_WR_SEND:                 {true, abi.IB_WC_SEND, false},
	abi.IB_UVERBS_WR_SEND_WITH_IMM:        {true, abi.IB_WC_SEND, false},
	abi.IB_UVERBS_WR_SEND_WITH_INV:        {true, abi.IB_WC_SEND, false},
	abi.IB_UVERBS_WR_RDMA_READ:            {true, abi.IB_WC_RDMA_READ, true},
	abi.IB_UVERBS_WR_RDMA_READ_WITH_INV:   {true, abi.IB_WC_RDMA_READ, false},
	abi.IB_UVERBS_WR_ATOMIC_CMP_AND_SWP:   {true, abi.IB_WC_COMP_SWAP, true},
	abi.IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD: {true, abi.IB_WC_FETCH_ADD, true},
	abi.IB_UVERBS_WR_LOCAL_INV:            {true, abi.IB_WC_LOCAL_INV, false},
	abi.IB_UVERBS_WR_BIND_MW:              {true, abi.IB_WC_BIND_MW, false},
	abi.IB_UVERBS_WR_FLUSH:                {true, abi.IB_WC_FLUSH, true},
	abi.IB_UVERBS_WR_ATOMIC_WRITE:         {true, abi.IB_WC_ATOMIC_WRITE, true},
}

// operationOf returns an operation, which may be none.
func operationOf(opcode uint32) operation {
	if opcode >= uint32(len(operations)) {
		return operation{}
	}
	return operations[opcode]
}

// Receive completes a receive for a SEND. On RoCE each message has a GRH.
func (q *QP) Receive(n uint32) bool {
	r, ok := q.takeRecv()
	if ok {
		CQOf(q.qp.RecvCQ).complete(&abi.IbUverbsWc{WrId: r.WrId, Opcode: abi.IB_WC_RECV, ByteLen: n, QpNum: q.qp.Num,
			WcFlags: abi.IB_WC_GRH, PortNum: 1}, false)
	}
	return ok
}

// check records fields that mislead the driver, which processes a send in user memory.
func (q *QP) check(s *Send) {
	note := func(format string, args ...any) {
		q.qp.Kernel().Device.Note("QP %d: send %d: "+format, append([]any{q.qp.Num, s.Wr.WrId}, args...)...)
	}
	op := s.Wr.Opcode
	if !operationOf(op).exists {
		note("there is no operation %d, and the driver takes it for an index", op)
		return
	}
	if s.State != 0 || s.Status != 0 || s.HasRdAtomic != 0 {
		note("state %d, status %d, %d reads: it is not as a new one", s.State, s.Status, s.HasRdAtomic)
	}
	if at := WR[abi.RxeSendWrRdma](s).RemoteAddr; operationOf(op).remote && s.Iova != at {
		note("it goes to %#x at first and to %#x when it is sent again", s.Iova, at)
	}
	inline := s.Wr.SendFlags&abi.IB_SEND_INLINE != 0 || op == abi.IB_UVERBS_WR_ATOMIC_WRITE
	checkDMA(note, &s.Dma, q.qp.Cap.MaxSendSge, inline)
	switch {
	case inline && s.Dma.Length > q.qp.Cap.MaxInlineData:
		note("%d bytes inline, of %d", s.Dma.Length, q.qp.Cap.MaxInlineData)
	case !inline && op != abi.IB_UVERBS_WR_FLUSH && s.sum() != uint64(s.Dma.Length):
		note("its SGEs have %d bytes, it says %d", s.sum(), s.Dma.Length)
	}
}

// checkDMA checks the offset and the length from which the driver copies data.
func checkDMA(note func(string, ...any), d *abi.RxeDmaInfo, most uint32, inline bool) {
	if d.Resid != d.Length || d.CurSge != 0 || d.SgeOffset != 0 {
		note("of %d bytes %d are left, from byte %d of SGE %d", d.Length, d.Resid, d.SgeOffset, d.CurSge)
	}
	if !inline && d.NumSge > most {
		note("%d SGEs, of %d", d.NumSge, most)
	}
}

// sum returns the number of bytes of the SGEs.
func (s *Send) sum() (n uint64) {
	for i := range min(s.Dma.NumSge, maxSGE) {
		n += uint64(s.sge(i).Length)
	}
	return n
}

func (q *ring) check(r *Recv, most uint32) {
	note := func(format string, args ...any) {
		q.Kernel.Device.Note("receive %d: "+format, append([]any{r.WrId}, args...)...)
	}
	checkDMA(note, &r.Dma, most, false)
	n := uint64(0)
	for _, g := range r.SGE[:min(r.Dma.NumSge, maxSGE)] {
		n += uint64(g.Length)
	}
	if n != uint64(r.Dma.Length) {
		note("its SGEs have %d bytes, it says %d", n, r.Dma.Length)
	}
}
