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
	Opcode uint32 // IB_UVERBS_WR_, NoOpcode or NOP
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
	Stream        uint16 // of a DCI
	Bind          Binding
	Flush         uint32 // bytes to flush at RemoteAddr; 0 means the whole region
	FlushTypes    uint8  // IB_FLUSH_

	Index      uint32 // for use by the model
	Code       uint8  // code of the operation, for use by the model
	SGLRoom    [2]SGE // memory for short SGLs
	InlineRoom []byte // memory for Inline
	Data       []byte // as in Recv
}

// NewWork returns an empty Work, which may have been used before. The lock is held.
func (k *Kernel) NewWork() *Work {
	n := len(k.works) - 1
	if n < 0 {
		return &Work{InlineRoom: make([]byte, 0, few)}
	}
	w := k.works[n]
	k.works = k.works[:n]
	*w = Work{InlineRoom: w.InlineRoom}
	return w
}

// SetInline sets Inline to a copy of b.
func (w *Work) SetInline(b []byte) {
	w.InlineRoom = append(w.InlineRoom[:0], b...)
	w.Inline = w.InlineRoom
}

// mostSpareWork is the number of Works, and of Recvs, that an opening keeps to use them again.
const mostSpareWork = 256

// Recycle lets the device use a completed Work again.
func (qp *QP) Recycle(w *Work) {
	qp.k.enter()
	if len(qp.k.works) < mostSpareWork {
		qp.k.works = append(qp.k.works, w)
	}
	qp.k.leave()
}

// NoOpcode is the opcode of operations that the device refuses, and NOP that of one that only completes.
const (
	NoOpcode = ^uint32(0) - iota
	NOP
)

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
	Key       uint64 // of a DCT
	AH        *AH    // nil if no address handle has the number
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

	Index   uint32   // for use by the driver
	SGLRoom [2]SGE   // as in Work
	Data    []byte   // data that is in the completion
	Packet  Packet   // attributes of a raw packet
	From    [16]byte // GID of the sender, for devices that report it
}

// NewRecv returns an empty Recv, which may have been used before. The lock is held.
func (k *Kernel) NewRecv() *Recv {
	n := len(k.recvs) - 1
	if n < 0 {
		return &Recv{}
	}
	r := k.recvs[n]
	k.recvs = k.recvs[:n]
	*r = Recv{}
	return r
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
	qp.k.enter()
	defer qp.k.leave()
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
	qp.k.enter()
	defer qp.k.leave()
	i := slices.Index(qp.Taken, w)
	if i < 0 {
		return false
	}
	qp.Taken = append(qp.Taken[:i], qp.Taken[i+1:]...)
	qp.queues.SendDone(w, status, status != abi.IB_WC_SUCCESS || w.Flags&abi.IB_SEND_SIGNALED != 0)
	if status != abi.IB_WC_SUCCESS {
		qp.drop()
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
	qp.k.enter()
	defer qp.k.leave()
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
	qp.k.enter()
	defer qp.k.leave()
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
	qp.k.enter()
	defer qp.k.leave()
	return q.KeepFetched(w, data)
}

// PeekRecv returns the receive that TakeRecv would take. Devices peek before they take a receive for a
// datagram.
func (qp *QP) PeekRecv() (*Recv, bool) {
	qp.k.enter()
	defer qp.k.leave()
	return qp.queues.(interface{ OldestRecv() (*Recv, bool) }).OldestRecv()
}

// Received completes a receive, which the device may use again. It fills in the WRID and the number of the queue pair.
func (qp *QP) Received(r *Recv, wc *abi.IbUverbsWc, solicited bool) {
	qp.k.enter()
	defer qp.k.leave()
	c := *wc
	c.WrId, c.QpNum = r.ID, qp.Num
	qp.queues.RecvDone(r, c, solicited)
	if len(qp.k.recvs) < mostSpareWork {
		qp.k.recvs = append(qp.k.recvs, r)
	}
}

// ReadSGE reads the memory of an SGE into b, which has its length. It reports whether a work request of the queue
// pair may read it, and whether it is there. For the key of no memory it reads zeros.
func (qp *QP) ReadSGE(s SGE, b []byte) bool {
	if qp.k.isNull(s.LKey) {
		clear(b)
		return true
	}
	m, addr, ok := qp.localMemory(s, false)
	return ok && m.Read(addr, b) == nil
}

// WriteSGE writes b, which has the length of the SGE, to its memory. It reports whether a work request of the queue
// pair may write it, and whether it is there. For the key of no memory it drops the data.
func (qp *QP) WriteSGE(s SGE, b []byte) bool {
	if qp.k.isNull(s.LKey) {
		return true
	}
	m, addr, ok := qp.localMemory(s, true)
	return ok && m.Write(addr, b) == nil
}

// localMemory returns the memory that an SGE names, and the address in it, if local permits it.
func (qp *QP) localMemory(s SGE, write bool) (m Memory, addr uint64, ok bool) {
	qp.k.enter()
	mr := qp.local(s, write)
	qp.k.leave()
	if mr == nil {
		return nil, 0, false
	}
	return mr.memory, mr.at + s.Addr - mr.Start, true
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
	qp.k.enter()
	defer qp.k.leave()
	return qp.k.isNull(s.LKey) || qp.local(s, write) != nil
}

// local returns the region of a piece of memory that a work request of the queue pair may read or write, or nil.
func (qp *QP) local(s SGE, write bool) *MR {
	mr := qp.k.keys[s.LKey]
	if mr == nil || mr.Key != s.LKey || mr.PD != qp.PD || mr.ended || !mr.covers(s.Addr, uint64(s.Length)) || write && mr.Access&abi.IB_UVERBS_ACCESS_LOCAL_WRITE == 0 {
		return nil
	}
	return mr
}

// FetchFrom copies the memory that a READ names from the peer's memory to that of this queue pair, without a buffer
// between them. It reports whether it did. If not, nothing is wrong yet: the caller fetches the data and then writes
// it. At most one goroutine at a time may call FetchFrom for queue pairs of the same openings.
func (qp *QP) FetchFrom(peer *QP, w *Work) bool {
	if w.Opcode != abi.IB_UVERBS_WR_RDMA_READ || w.Len() <= few || raceEnabled {
		return false
	}
	from, addr := peer.Memory(w.RKey, w.RemoteAddr)
	qp.k.enter()
	defer qp.k.leave()
	for _, s := range w.SGL {
		if s.Length == 0 {
			continue
		}
		mr := qp.local(s, true)
		if mr == nil || !copyDirectly(mr.memory, mr.at+s.Addr-mr.Start, from, addr, int(s.Length)) {
			return false
		}
		addr += uint64(s.Length)
	}
	return true
}

// RemoteOK reports whether a key gives the peer access to memory. right is an access flag.
func (qp *QP) RemoteOK(key uint32, addr, length uint64, right uint32) bool {
	qp.k.enter()
	defer qp.k.leave()
	if mw := qp.k.windows[key]; mw != nil {
		return mw.to(qp) && mw.Bound.Access&right == right && mw.covers(addr, length)
	}
	mr := qp.k.keys[key]
	return mr != nil && mr.RKey == key && mr.PD == qp.PD && !mr.ended && mr.Access&right == right && mr.covers(addr, length)
}

// QPAccess returns the access flags of the queue pair.
func (qp *QP) QPAccess() uint32 {
	qp.k.enter()
	defer qp.k.leave()
	return qp.Attrs.QpAccessFlags
}

// Invalidate invalidates the key of a window of type 2, or of a region unless the driver refuses that. It
// reports whether there was one.
func (qp *QP) Invalidate(key uint32) bool {
	qp.k.enter()
	defer qp.k.leave()
	if mw := qp.k.windows[key]; mw != nil {
		if mw.Type != 2 || !mw.to(qp) {
			return false
		}
		mw.Bound = nil
		return true
	}
	mr := qp.k.keys[key]
	if mr == nil || mr.PD != qp.PD || mr.ended || qp.k.Device.driver.KeepsRegions {
		return false
	}
	mr.ended = true
	return true
}

// Bind binds a window, or unbinds it if the length is 0. It reports whether the binding is permitted.
func (qp *QP) Bind(b *Binding) bool {
	qp.k.enter()
	defer qp.k.leave()
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
		bound := *b // the Work that b belongs to may be used again
		mw.Bound, mw.qp, mw.mr = &bound, qp, mr
	}
	delete(qp.k.windows, mw.RKey)
	mw.RKey = mw.RKey&^0xff | b.NewRKey&0xff
	qp.k.windows[mw.RKey] = mw
	return true
}

// HasKey reports whether a key belongs to the opening.
func (qp *QP) HasKey(key uint32) bool {
	qp.k.enter()
	defer qp.k.leave()
	return qp.k.keys[key] != nil || qp.k.windows[key] != nil
}

// Memory returns the memory of a valid key, and the address in it. If the key is gone, it returns memory that has
// no bytes.
func (qp *QP) Memory(key uint32, addr uint64) (Memory, uint64) {
	qp.k.enter()
	defer qp.k.leave()
	mr := qp.k.keys[key]
	if mw := qp.k.windows[key]; mw != nil && mw.Bound != nil {
		mr = mw.mr
	}
	if mr == nil {
		return &lent{}, addr
	}
	return mr.memory, mr.at + addr - mr.Start
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
