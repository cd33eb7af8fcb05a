package fakeverbs

import (
	"math"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

// Work is a send that the device took off its queue, in the same form for all drivers. It
// needs a completion.
type Work struct {
	ID     uint64
	Opcode uint32 // IB_UVERBS_WR_, or NoOpcode
	Flags  uint32 // IB_SEND_; signaled also because the queue pair signals all
	Front  []byte // of a raw packet, before its data: the part that is in the request itself
	MSS    uint16 // of a TSO, whose headers are Front
	Inline []byte // with IB_SEND_INLINE, or
	SGL    []SGE

	RemoteAddr    uint64
	RKey          uint32
	SRQN          uint32 // of the peer's SRQ, with XRC
	Imm           uint32 // as it stands; a key to end
	Compare, Swap uint64 // Compare is also the addend
	To            Destination
	Bind          Binding
	Flush         uint32 // bytes from RemoteAddr on; 0 for all of the region
	FlushTypes    uint8  // IB_FLUSH_

	Index   uint32 // for the model's own use, as is the next
	Code    uint8  // of the operation
	SGLRoom [2]SGE // room for the SGL of most
	Data    []byte // as in Recv
}

// NoOpcode is an operation that no verb has.
const NoOpcode = ^uint32(0)

// Len returns the length of the data in bytes. An SGL of 4 GiB and more counts for one byte less.
func (w *Work) Len() uint32 {
	n := uint64(len(w.Front) + len(w.Inline))
	for _, s := range w.SGL {
		n += uint64(s.Length)
	}
	return uint32(min(n, math.MaxUint32))
}

// SGE is a piece of user memory.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// Destination is where a datagram goes.
type Destination struct {
	QPN, QKey uint32
	AH        *AH // nil: there is none of that number
}

// Binding describes the memory that a window opens.
type Binding struct {
	Addr, Length        uint64
	LKey, RKey, NewRKey uint32 // of the region; of the window, before and after
	Access              uint32
}

// Recv is a receive that the device took, of a queue pair or its SRQ.
type Recv struct {
	ID  uint64
	SGL []SGE

	Index   uint32 // for the driver's own use
	SGLRoom [2]SGE // as in Work
	Data    []byte // that come in the completion
	Packet  Packet // of a raw packet
}

// Packet is what a device finds in a raw packet that arrives.
type Packet struct {
	Tag                  uint32 // of the flow rule
	VLAN                 uint16 // with Stripped
	Stripped             bool
	IPv4, IPv6, TCP, UDP bool
	L3OK, L4OK           bool
}

// Queues is a model's side of a queue pair's queues. The kernel's lock is held. Statuses and
// completions are those of the verbs. A model whose queues are played by unit tests has the
// methods of QP.Carry and QP.Receive too.
type Queues interface {
	// EnterError moves the queue pair to the error state: all is flushed, taken sends first.
	EnterError()
	// NextSend takes the oldest send.
	NextSend() (*Work, bool)
	// SendDone ends the oldest send that was taken, with a completion or without.
	SendDone(w *Work, status uint32, completes bool)
	// NextRecv takes the oldest receive, of the queue pair or its SRQ.
	NextRecv() (*Recv, bool)
	// RecvDone completes a receive that was taken.
	RecvDone(r *Recv, wc abi.IbUverbsWc, solicited bool)
}

// TakeSend takes the oldest send of a queue pair in RTS.
func (qp *QP) TakeSend() (*Work, bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if qp.CurState != abi.IB_QPS_RTS {
		return nil, false
	}
	w, ok := qp.queues.NextSend()
	if ok {
		qp.Taken = append(qp.Taken, w)
	}
	return w, ok
}

// Sent completes the oldest send that was taken, a success only if it was signaled. A failure moves the queue
// pair to the error state. A send that was flushed meanwhile stays so: Sent reports false.
func (qp *QP) Sent(w *Work, status uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	i := slices.Index(qp.Taken, w)
	if i < 0 {
		return false
	}
	qp.Taken = slices.Delete(qp.Taken, i, i+1)
	qp.queues.SendDone(w, status, status != abi.IB_WC_SUCCESS || w.Flags&abi.IB_SEND_SIGNALED != 0)
	if status != abi.IB_WC_SUCCESS {
		qp.queues.EnterError()
	}
	return true
}

// FlushTaken completes the sends that were taken and are not done.
func (qp *QP) FlushTaken() {
	taken := qp.Taken
	qp.Taken = nil
	for _, w := range taken {
		qp.queues.SendDone(w, abi.IB_WC_WR_FLUSH_ERR, true)
	}
}

// TakeRecv takes the oldest receive, of the queue pair or its SRQ, as for an arriving
// message. A queue pair in the error state takes none: user space may be taking them back.
func (qp *QP) TakeRecv() (*Recv, bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if qp.CurState == abi.IB_QPS_ERR {
		return nil, false
	}
	return qp.queues.NextRecv()
}

// keeper is a queue pair whose short messages may come in completions.
type keeper interface {
	Keeps() bool // fixed when the queue pair is made
	Keep(r *Recv, data []byte) bool
	KeepFetched(w *Work, data []byte) bool
}

// Keep puts the data of a SEND into the completion of its receive, in place of the memory
// that it names. It reports whether the device does so.
func (qp *QP) Keep(r *Recv, data []byte) bool {
	q, ok := qp.Made.(keeper)
	if !ok || !q.Keeps() {
		return false
	}
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return q.Keep(r, data)
}

// HasSRQ reports whether receives are those of an SRQ.
func (qp *QP) HasSRQ() bool { return qp.SRQ != nil }

// KeepFetched is Keep for the data that a send has fetched.
func (qp *QP) KeepFetched(w *Work, data []byte) bool {
	q, ok := qp.Made.(keeper)
	if !ok || !q.Keeps() {
		return false
	}
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return q.KeepFetched(w, data)
}

// PeekRecv looks at the receive that TakeRecv would take, where devices look at one before
// they take it: for datagrams.
func (qp *QP) PeekRecv() (*Recv, bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.queues.(interface{ OldestRecv() (*Recv, bool) }).OldestRecv()
}

// Received completes a receive. The completion needs no ID and no queue pair's number.
func (qp *QP) Received(r *Recv, wc *abi.IbUverbsWc, solicited bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	c := *wc
	c.WrId, c.QpNum = r.ID, qp.Num
	qp.queues.RecvDone(r, c, solicited)
}

// ReadSGE reads the memory of an SGE, of which the device has made sure by LocalOK. That of the
// key of no memory is zeros.
func (qp *QP) ReadSGE(s SGE, b []byte) error {
	if qp.k.isNull(s.LKey) {
		clear(b)
		return nil
	}
	m, addr := qp.Memory(s.LKey, s.Addr)
	return m.Read(addr, b)
}

// WriteSGE writes to the memory of an SGE in the same way. Data for the key of no memory is
// dropped.
func (qp *QP) WriteSGE(s SGE, b []byte) error {
	if qp.k.isNull(s.LKey) {
		return nil
	}
	m, addr := qp.Memory(s.LKey, s.Addr)
	return m.Write(addr, b)
}

// isNull reports whether a key is the device's key of no memory, which the context's answer has.
func (k *Kernel) isNull(lkey uint32) bool { return lkey == k.NullKey && lkey != 0 }

// covers reports whether the region has a piece of memory.
func (mr *MR) covers(addr, length uint64) bool {
	return addr >= mr.Start && addr-mr.Start <= mr.Length && length <= mr.Length-(addr-mr.Start)
}

// LocalOK reports whether a work request of the queue pair may name a piece of memory, to be
// read or written. Nothing needs no key.
func (qp *QP) LocalOK(s SGE, write bool) bool {
	if s.Length == 0 {
		return true
	}
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if qp.k.isNull(s.LKey) {
		return true
	}
	mr := qp.k.keys[s.LKey]
	return mr != nil && mr.PD == qp.PD && !mr.ended && mr.covers(s.Addr, uint64(s.Length)) &&
		(!write || mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE != 0)
}

// RemoteOK reports whether a peer's key opens memory to it. Right is an access flag.
func (qp *QP) RemoteOK(key uint32, addr, length uint64, right uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if mw := qp.k.windows[key]; mw != nil {
		return mw.to(qp) && mw.Bound.Access&right == right && mw.covers(addr, length)
	}
	mr := qp.k.keys[key]
	return mr != nil && mr.PD == qp.PD && !mr.ended && mr.Access&right == right && mr.covers(addr, length)
}

// QPAccess are the rights that the queue pair gives to its peer at all.
func (qp *QP) QPAccess() uint32 {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.Attrs.QpAccessFlags
}

// Invalidate ends a key of a region, or of a window of type 2, and reports whether there
// was such a one.
func (qp *QP) Invalidate(key uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if mw := qp.k.windows[key]; mw != nil {
		if mw.Type != 2 || !mw.to(qp) {
			return false
		}
		mw.Bound = nil
		return true
	}
	mr := qp.k.keys[key]
	if mr == nil || mr.PD != qp.PD || mr.ended {
		return false
	}
	mr.ended = true
	return true
}

// Bind opens a window, or with length 0 closes it, and reports whether it may.
func (qp *QP) Bind(b *Binding) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	mw, mr := qp.k.windows[b.RKey], qp.k.keys[b.LKey]
	const writes = abi.IB_UVERBS_ACCESS_REMOTE_WRITE | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
	switch {
	case mw == nil || mw.pd != qp.PD || mw.Type == 2 && mw.Bound != nil:
		return false
	case b.Length == 0 && mw.Type == 1:
		mw.Bound = nil
	case mr == nil || mr.PD != qp.PD || mr.ended || mr.Access&abi.IB_UVERBS_ACCESS_MW_BIND == 0 || !mr.covers(b.Addr, b.Length),
		b.Access&writes != 0 && mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0:
		return false
	default:
		mw.Bound, mw.qp = b, qp
	}
	delete(qp.k.windows, mw.RKey)
	mw.RKey = mw.RKey&^0xff | b.NewRKey&0xff
	qp.k.windows[mw.RKey] = mw
	return true
}

// HasKey reports whether a key is one of the opening's.
func (qp *QP) HasKey(key uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.k.keys[key] != nil || qp.k.windows[key] != nil
}

// Memory returns the memory that a valid key names, and the address in it.
func (qp *QP) Memory(key uint32, addr uint64) (Memory, uint64) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if mr := qp.k.keys[key]; mr != nil && mr.DM != nil {
		return &mr.DM.memory, mr.DM.Start + mr.Offset + addr - mr.Start
	}
	return qp.k.User, addr
}

// RemoteMemory is Memory for a peer's request. The race detector does not see a
// peer's access to memory of this process, as it does not see a device's.
func (qp *QP) RemoteMemory(key uint32, addr uint64) (Memory, uint64) {
	m, at := qp.Memory(key, addr)
	if l, ok := m.(*lent); ok && raceEnabled {
		return unseen{l}, at
	}
	return m, at
}
