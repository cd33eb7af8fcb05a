package fakeverbs

import (
	"math"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
)

// Work is a send that the device took off its queue, whatever the driver. It is owed a
// completion.
type Work struct {
	ID     uint64
	Opcode uint32 // IB_UVERBS_WR_, or NoOpcode
	Flags  uint32 // IB_SEND_; signaled also because the queue pair signals all
	Front  []byte // of a raw packet, before its data: what the request itself has of it
	Inline []byte // with IB_SEND_INLINE, or
	SGL    []SGE

	RemoteAddr    uint64
	RKey          uint32
	SRQN          uint32 // of the peer's SRQ, with XRC
	Imm           uint32 // as it stands; a key to end
	Compare, Swap uint64 // Compare is also what is added
	To            Destination
	Bind          Binding
	Flush         uint32 // bytes

	index uint32 // for the driver's own use, as is the next
	erdma uint8  // opcode
	few   [2]SGE // room for the SGL of most
	data  []byte // as in Recv
}

// NoOpcode is an operation that no verb has.
const NoOpcode = ^uint32(0)

// Len is the length of the data in bytes. An SGL of 4 GiB and more counts for one byte less.
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

// Binding is what a window shall open.
type Binding struct {
	Addr, Length        uint64
	LKey, RKey, NewRKey uint32 // of the region; of the window, before and after
	Access              uint32
}

// Recv is a receive that the device took, of a queue pair or its SRQ.
type Recv struct {
	ID  uint64
	SGL []SGE

	index uint32 // for the driver's own use
	few   [2]SGE // as in Work
	data  []byte // that come in the completion
}

// queues is what every driver does with a queue pair's queues. The kernel's lock is held.
// Statuses and completions are those of the verbs.
type queues interface {
	// fail is the move to the error state: all is flushed, what was taken first.
	fail()
	nextSend() (*Work, bool)
	sendDone(w *Work, status uint32, tell bool) // the oldest that was taken; tell: with a completion
	nextRecv() (*Recv, bool)
	recvDone(r *Recv, wc abi.IbUverbsWc, solicited bool)
}

// TakeSend takes the oldest send of a queue pair in RTS.
func (qp *QP) TakeSend() (*Work, bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if qp.state != abi.IB_QPS_RTS {
		return nil, false
	}
	w, ok := qp.queues.nextSend()
	if ok {
		qp.taken = append(qp.taken, w)
	}
	return w, ok
}

// Sent completes the oldest send that was taken, a success only if it was signaled. A failure moves the queue
// pair to the error state. A send that was flushed meanwhile stays so: Sent reports false.
func (qp *QP) Sent(w *Work, status uint32) bool {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	i := slices.Index(qp.taken, w)
	if i < 0 {
		return false
	}
	qp.taken = slices.Delete(qp.taken, i, i+1)
	qp.queues.sendDone(w, status, status != abi.IB_WC_SUCCESS || w.Flags&abi.IB_SEND_SIGNALED != 0)
	if status != abi.IB_WC_SUCCESS {
		qp.queues.fail()
	}
	return true
}

// flushTaken completes what was taken and is not done.
func (qp *QP) flushTaken() {
	taken := qp.taken
	qp.taken = nil
	for _, w := range taken {
		qp.queues.sendDone(w, abi.IB_WC_WR_FLUSH_ERR, true)
	}
}

// TakeRecv takes the oldest receive, of the queue pair or its SRQ, as for an arriving
// message. A queue pair in the error state takes none: user space may be taking them back.
func (qp *QP) TakeRecv() (*Recv, bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	if qp.state == abi.IB_QPS_ERR {
		return nil, false
	}
	return qp.queues.nextRecv()
}

// Keep has the data of a SEND come in the completion of its receive, in place of the memory
// that it names. It reports whether the device does so.
func (qp *QP) Keep(r *Recv, data []byte) bool {
	if qp.MLX5 == nil || !qp.MLX5.scatters {
		return false
	}
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.MLX5.keep(r, data)
}

// HasSRQ tells whether receives are those of an SRQ.
func (qp *QP) HasSRQ() bool { return qp.srq != nil }

// KeepFetched is Keep for what a send has brought, in place of the memory that it names.
func (qp *QP) KeepFetched(w *Work, data []byte) bool {
	if qp.MLX5 == nil || !qp.MLX5.scatters {
		return false
	}
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.MLX5.keepFetched(w, data)
}

// PeekRecv looks at the receive that TakeRecv would take, where devices look at one before
// they take it: for datagrams.
func (qp *QP) PeekRecv() (*Recv, bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	return qp.queues.(interface{ oldestRecv() (*Recv, bool) }).oldestRecv()
}

// Received completes a receive. The completion needs no ID and no queue pair's number.
func (qp *QP) Received(r *Recv, wc *abi.IbUverbsWc, solicited bool) {
	qp.k.mu.Lock()
	defer qp.k.mu.Unlock()
	c := *wc
	c.WrId, c.QpNum = r.ID, qp.Num
	qp.queues.recvDone(r, c, solicited)
}
