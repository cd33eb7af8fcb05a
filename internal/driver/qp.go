package driver

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// CreateQP asks a provider for a QP.
type CreateQP struct {
	Call
	Type verbs.QPType
	// Cap is as asked for, and after Do as the kernel granted it. The provider lowers
	// or raises what its queues really hold.
	Cap       verbs.QPCap
	SignalAll bool // every send completes with a CQE
	Flags     verbs.QPFlags
	SourceQPN uint32 // that packets name as their source, 0 for the QP's own
	// PD is what AllocPD returned, and PDHandle the kernel's number.
	PD       any
	PDHandle uint32
	// SendCQ and RecvCQ are the provider's own, and so is SRQ, which is nil when the
	// QP has a receive queue of its own.
	SendCQ, RecvCQ CQ
	SRQ            SRQ
	// Handle and Num are known after Do.
	Handle, Num uint32
	// Bind notes a binding of a memory window that is about to be queued: the window
	// has b's key from then on. Call it with the send queue held; an error forbids the
	// binding. With hold the QP can't be closed before the window is, or is bound
	// through another QP.
	Bind func(b *verbs.BindMW, hold bool) error
}

// QP is the user-space half of a QP. PostSend is called with the send queue held,
// PostRecv with the receive queue; optional interfaces ([QPModifier], [Flusher], [Idler],
// [DataOrderer], [Destroyer]) say what their methods are called with.
type QP interface {
	// PostSend queues work requests and tells the device once. It returns how many it
	// queued, and why not all. ErrQPFailing says that those queued will be flushed. Any
	// other error when all are queued says that the device could not be told. They stay
	// queued, and the next PostSend must tell the device of them, even one of no requests.
	// If a request was refused besides, the error is of both.
	PostSend(wrs []verbs.SendWR) (int, error)
	// PostRecv has the same rules, but must not fail when all are queued, unless with
	// ErrQPFailing.
	PostRecv(wrs []verbs.RecvWR) (int, error)
}

// QPModifier is a QP that takes part when it is modified, by the user or because it
// failed. Modify is called with both queues held and calls Do of r, perhaps twice. When
// that is a move to RESET, Do returns with both CQs held and cleaned; they are let go
// after Modify.
type QPModifier interface{ Modify(r *ModifyQP) error }

// ModifyQP asks a provider to modify a QP. From and To are the same when the state
// stays. From is the state as far as this process moved the QP: one that failed by
// itself may still seem to be in RTS. Mapped memory belongs to the QP.
type ModifyQP struct {
	Call
	From, To verbs.QPState
	Attr     *verbs.QPAttr // to be read only
	Mask     verbs.QPAttrMask
}

// Flusher is a QP whose device does not complete all work of a failed QP. When the QP
// fails, package uverbs moves it to ERR and then calls Flush. Until the QP is put into
// RESET, uverbs calls Flush again after each post. Flush is called with both queues held.
// It returns the completions of the work requests that it took off the queues. They are
// polled after those of the device.
type Flusher interface{ Flush() Flushed }

// ErrFlusher is a QP whose device may flush a queue only when the QP is moved to ERR.
// FlushedByErr reports whether that is so; it is called once, when the QP is created. If
// so, package uverbs moves the QP to ERR when it fails, and again after each later post
// until the QP is put into RESET.
type ErrFlusher interface{ FlushedByErr() bool }

// Flushed are completions that a provider made itself, oldest first.
type Flushed struct{ Send, Recv []verbs.WC }

// DataOrderer is a QP that knows the order in which its device writes.
type DataOrderer interface {
	DataOrder(op verbs.Opcode) verbs.DataOrder
}

// Idler is a QP whose device completes the work of a failed QP some time later. Idle
// reports whether the device has taken all work requests off the queues. It is called with
// both queues held, after [Flusher]'s Flush.
type Idler interface{ Idle() bool }

// SumSGL returns how many bytes an SGL names. It refuses one that has more SGEs than
// its queue takes, and one with an SGE of [verbs.BadLength].
func SumSGL(sgl []verbs.SGE, most int) (bytes uint64, err error) {
	if len(sgl) > most {
		return 0, fmt.Errorf("%w: %d SGEs, the queue takes %d", verbs.ErrInvalidWR, len(sgl), most)
	}
	for i := range sgl {
		n := sgl[i].Length // read once
		if n == verbs.BadLength {
			return 0, fmt.Errorf("%w: SGE %d has BadLength: MR.SGE got an offset or a length below 0, or a length of 4 GiB or more", verbs.ErrInvalidWR, i)
		}
		bytes += uint64(n)
	}
	return bytes, nil
}
