package fakeverbs

import (
	"math"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

// Work is a send that the device has taken from its queue. All drivers use this format. It must be
// completed.
type Work struct {
	ID     uint64
	Opcode uint32 // IB_UVERBS_WR_, or NoOpcode
	Flags  uint32 // IB_SEND_; includes signaled if the queue pair signals all sends
	Front  []byte // the start of a raw packet that is in the request itself
	MSS    uint16 // for a TSO, whose headers are in Front
	Inline []byte // data with IB_SEND_INLINE, or
	SGL    []SGE

	RemoteAddr    uint64
	RKey          uint32
	SRQN          uint32 // number of the peer's SRQ, with XRC
	Imm           uint32 // immediate data in wire order, or a key to invalidate
	Compare, Swap uint64 // Compare is also the addend
	To            Destination
	Bind          Binding
	Flush         uint32 // bytes to flush at RemoteAddr; 0 means the whole region
	FlushTypes    uint8  // IB_FLUSH_

	Index   uint32 // for use by the model
	Code    uint8  // code of the operation, for use by the model
	SGLRoom [2]SGE // memory for short SGLs
	Data    []byte // as in Recv
}

// NoOpcode is the opcode of operations that are not verbs.
const NoOpcode = ^uint32(0)

// Len returns the length of the data in bytes, at most 4 GiB minus one.
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

// Destination is the destination of a datagram.
type Destination struct {
	QPN, QKey uint32
	AH        *AH // nil if no address handle has the number
}

// Binding describes the memory that a window gives access to.
type Binding struct {
	Addr, Length        uint64
	LKey, RKey, NewRKey uint32 // lkey of the region; rkeys of the window before and after
	Access              uint32
}

// Recv is a receive that the device has taken from a queue pair or its SRQ.
type Recv struct {
	ID  uint64
	SGL []SGE

	Index   uint32 // for use by the driver
	SGLRoom [2]SGE // as in Work
	Data    []byte // data that is in the completion
	Packet  Packet // attributes of a raw packet
}

// Packet holds the attributes that a device finds in an arriving raw packet.
type Packet struct {
	Tag                  uint32 // flow tag of the rule
	VLAN                 uint16 // valid if Stripped is set
	Stripped             bool
	IPv4, IPv6, TCP, UDP bool
	L3OK, L4OK           bool
}

// Queues is a model's side of a queue pair's queues. The kernel's lock is held. Statuses and
// completions are those of the verbs. Models for unit tests also have the methods that QP.Carry and
// QP.Receive call.
type Queues interface {
	// EnterError moves the queue pair to the error state. All requests are flushed, taken sends first.
	EnterError()
	// NextSend takes the oldest send.
	NextSend() (*Work, bool)
	// SendDone ends the oldest taken send, with or without a completion.
	SendDone(w *Work, status uint32, completes bool)
	// NextRecv takes the oldest receive of the queue pair or its SRQ.
	NextRecv() (*Recv, bool)
	// RecvDone completes a taken receive.
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

// Sent completes the oldest taken send. A success has a completion only if the send was signaled. A failure
// moves the queue pair to the error state. If the send has been flushed meanwhile, Sent does nothing and
// reports false.
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

// FlushTaken flushes the taken sends that have not completed.
func (qp *QP) FlushTaken() {
	taken := qp.Taken
	qp.Taken = nil
	for _, w := range taken {
		qp.queues.SendDone(w, abi.IB_WC_WR_FLUSH_ERR, true)
	}
}

// TakeRecv takes the oldest receive of the queue pair or its SRQ, for an arriving message. In the error
// state it takes none, because user space may be removing them.
func (qp *QP) TakeRecv() (*Recv, bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if qp.CurState == abi.IB_QPS_ERR {
		return nil, false
	}
	return qp.queues.NextRecv()
}

// keeper is a queue pair whose completions may contain short messages.
type keeper interface {
	Keeps() bool // fixed when the queue pair is created
	Keep(r *Recv, data []byte) bool
	KeepFetched(w *Work, data []byte) bool
}

// Keep puts the data of a SEND into the completion of the receive instead of its memory. It reports whether
// the device does so.
func (qp *QP) Keep(r *Recv, data []byte) bool {
	q, ok := qp.Made.(keeper)
	if !ok || !q.Keeps() {
		return false
	}
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return q.Keep(r, data)
}

// HasSRQ reports whether the queue pair receives from an SRQ.
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

// PeekRecv returns the receive that TakeRecv would take. Devices peek before they take a receive for a
// datagram.
func (qp *QP) PeekRecv() (*Recv, bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.queues.(interface{ OldestRecv() (*Recv, bool) }).OldestRecv()
}

// Received completes a receive. It fills in the WRID and the number of the queue pair.
func (qp *QP) Received(r *Recv, wc *abi.IbUverbsWc, solicited bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	c := *wc
	c.WrId, c.QpNum = r.ID, qp.Num
	qp.queues.RecvDone(r, c, solicited)
}

// ReadSGE reads the memory of an SGE that LocalOK has permitted. For the key of no memory it reads zeros.
func (qp *QP) ReadSGE(s SGE, b []byte) error {
	if qp.k.isNull(s.LKey) {
		clear(b)
		return nil
	}
	m, addr := qp.Memory(s.LKey, s.Addr)
	return m.Read(addr, b)
}

// WriteSGE writes the memory of an SGE that LocalOK has permitted. For the key of no memory it drops the
// data.
func (qp *QP) WriteSGE(s SGE, b []byte) error {
	if qp.k.isNull(s.LKey) {
		return nil
	}
	m, addr := qp.Memory(s.LKey, s.Addr)
	return m.Write(addr, b)
}

// isNull reports whether a key is the device's key of no memory.
func (k *Kernel) isNull(lkey uint32) bool { return lkey == k.NullKey && lkey != 0 }

// covers reports whether the region contains a range of memory.
func (mr *MR) covers(addr, length uint64) bool {
	return addr >= mr.Start && addr-mr.Start <= mr.Length && length <= mr.Length-(addr-mr.Start)
}

// LocalOK reports whether a work request of the queue pair may read or write a piece of memory. An empty
// piece needs no key.
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

// RemoteOK reports whether a key gives the peer access to memory. right is an access flag.
func (qp *QP) RemoteOK(key uint32, addr, length uint64, right uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if mw := qp.k.windows[key]; mw != nil {
		return mw.to(qp) && mw.Bound.Access&right == right && mw.covers(addr, length)
	}
	mr := qp.k.keys[key]
	return mr != nil && mr.PD == qp.PD && !mr.ended && mr.Access&right == right && mr.covers(addr, length)
}

// QPAccess returns the access flags of the queue pair.
func (qp *QP) QPAccess() uint32 {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.Attrs.QpAccessFlags
}

// Invalidate invalidates the key of a region or of a window of type 2. It reports whether there was one.
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

// Bind binds a window, or unbinds it if the length is 0. It reports whether the binding is permitted.
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

// HasKey reports whether a key belongs to the opening.
func (qp *QP) HasKey(key uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.k.keys[key] != nil || qp.k.windows[key] != nil
}

// Memory returns the memory of a valid key, and the address in it.
func (qp *QP) Memory(key uint32, addr uint64) (Memory, uint64) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if mr := qp.k.keys[key]; mr != nil && mr.DM != nil {
		return &mr.DM.memory, mr.DM.Start + mr.Offset + addr - mr.Start
	}
	return qp.k.User, addr
}

// RemoteMemory is Memory for a peer's request. It hides the peer's accesses to memory of this process from
// the race detector, which doesn't see those of a real device either.
func (qp *QP) RemoteMemory(key uint32, addr uint64) (Memory, uint64) {
	m, at := qp.Memory(key, addr)
	if l, ok := m.(*lent); ok && raceEnabled {
		return unseen{l}, at
	}
	return m, at
}
