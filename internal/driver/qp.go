package driver

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// CreateQP is a request for a QP.
type CreateQP struct {
	Call
	Type verbs.QPType
	// Cap has the requested capacities, and after Do those that the kernel granted. The
	// provider corrects them to the actual capacities of its queues.
	Cap       verbs.QPCap
	SignalAll bool // every send generates a completion
	Flags     verbs.QPFlags
	SourceQPN uint32 // source QP number in packets, 0 for the QP's own
	// MaxTSOHeader is the largest number of bytes of headers of an OpTSO. It is 0 unless Supports
	// says that such a QP accepts OpTSO.
	MaxTSOHeader uint32
	DCKey        uint64 // DCT: the key that requests must have
	DCStreams    verbs.DCStreams
	// PD is the data that AllocPD returned, and PDHandle is the kernel's number.
	PD       any
	PDHandle uint32
	// SendCQ, RecvCQ and SRQ are the provider's. SRQ is nil if the QP has a receive queue of
	// its own. A CQ is nil for a QP that does not send or receive.
	SendCQ, RecvCQ CQ
	SRQ            SRQ
	// Handle and Num are set by Do.
	Handle, Num uint32
	// Bind records a binding of a memory window that is about to be queued, and sets the
	// window's key to b's. Call it with the send queue held, and don't queue the binding if it
	// fails. With hold, the QP can't be closed until the window is closed or is bound through
	// another QP.
	Bind func(b *verbs.BindMW, hold bool) error
}

// QP is the user-space half of a QP. PostSend is called with the send queue held, and PostRecv with
// the receive queue held. A QP may implement [SendBuilder], [QPModifier], [Flusher],
// [ErrFlusher], [Idler], [DataOrderer] and [Destroyer].
type QP interface {
	// PostSend queues work requests and rings the doorbell once. It returns the number of
	// requests that it queued, and an error if that is not all. ErrQPFailing means that the
	// queued requests will be flushed. Any other error, if all requests are queued, means that
	// the doorbell failed. The requests stay queued, and the next PostSend must ring the
	// doorbell for them, even if it has no requests. If a request was refused as well, the
	// error matches both causes.
	PostSend(wrs []verbs.SendWR) (int, error)
	// PostRecv has the same rules, but if all requests are queued, its only error is
	// ErrQPFailing.
	PostRecv(wrs []verbs.RecvWR) (int, error)
}

// QueryCleaner is a QP whose kernel driver does not set all attributes that a query returns. CleanQuery
// resets the others.
type QueryCleaner interface{ CleanQuery(attr *verbs.QPAttr) }

// QueryMasker is a QP whose kernel driver refuses queries of some attributes. QueryMask returns the
// others. It must include QPAttrState.
type QueryMasker interface{ QueryMask() verbs.QPAttrMask }

// Survivor is a QP that may continue to work after a work request has failed. Survives reports whether
// it does so after wc, a failed completion. It is called with the CQ's lock held.
type Survivor interface{ Survives(wc *verbs.WC) bool }

// NoQueues is a QP without queues: an XRC target QP, or one of CreateRSSQP.
type NoQueues struct{}

var errNoQueues = fmt.Errorf("%w: the QP has no queues", verbs.ErrNotSupported)

// PostSend implements QP.
func (NoQueues) PostSend([]verbs.SendWR) (int, error) { return 0, errNoQueues }

// PostRecv implements QP.
func (NoQueues) PostRecv([]verbs.RecvWR) (int, error) { return 0, errNoQueues }

// ErrNoTarget is the error of a list of requests that names a DCT, on a QP that is no DCI.
var ErrNoTarget = fmt.Errorf("%w: only the requests of a DCI have a target", verbs.ErrNotSupported)

// SendBuilder is a QP into whose send queue requests can be written one at a time. The send queue is
// held from StartSends to RingSends. A QP that implements it must not be a [Flusher] or an
// [ErrFlusher].
type SendBuilder interface {
	// StartSends begins a list of requests. If refused is not nil, the QP is closed: nothing may be
	// written, and RingSends returns refused.
	StartSends(refused error)
	// BuildTarget sets the DCT of the requests that follow. A QP that is no DCI refuses it with ErrNoTarget.
	BuildTarget(ah verbs.AH, dctn uint32, key uint64, stream uint16)
	// These write a request. After one that is refused, they do nothing.
	BuildSend(id uint64, flags verbs.SendFlags, e verbs.SGE)
	BuildSendInline(id uint64, flags verbs.SendFlags, data []byte)
	BuildWrite(id uint64, flags verbs.SendFlags, e verbs.SGE, addr uint64, rkey uint32)
	BuildWriteInline(id uint64, flags verbs.SendFlags, data []byte, addr uint64, rkey uint32)
	// RingSends has the results of PostSend.
	RingSends() (int, error)
}

// QPModifier is a QP that takes part when it is modified, by the user or because it failed. Modify
// is called with both queues held, but no CQ. It calls Do of r, perhaps twice. For a move to RESET, both
// CQs have been cleaned when Do returns.
type QPModifier interface{ Modify(r *ModifyQP) error }

// ModifyQP is a request to modify a QP. From and To are equal if the state does not change. From
// is the state to which this process moved the QP last, so a QP that has failed may still seem to be
// in RTS. Mapped memory belongs to the QP.
type ModifyQP struct {
	Call
	From, To verbs.QPState
	Attr     *verbs.QPAttr // read-only
	Mask     verbs.QPAttrMask
	// Num is set by Modify if the QP got its number only now.
	Num uint32
}

// ECESetter is a QP whose device has options of enhanced connection establishment. ECE returns those
// that are in force. SetECE requests others for the next modification of the QP. Both are called with
// both queues held.
type ECESetter interface {
	ECE() (verbs.ECE, error)
	SetECE(e verbs.ECE) error
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

// Flushed has completions that a provider made itself, oldest first.
type Flushed struct{ Send, Recv []verbs.WC }

// DataOrderer is a QP that knows the order in which its device writes data.
type DataOrderer interface {
	DataOrder(op verbs.Opcode) verbs.DataOrder
}

// Idler is a QP whose device completes the work of a failed QP some time later. Idle
// reports whether the device has taken all work requests off the queues. It is called with
// both queues held, after [Flusher]'s Flush.
type Idler interface{ Idle() bool }

// RecvEmptier is a QP of iWARP. RecvEmpty reports whether no receive is queued, other than completed ones. It
// is called with the receive queue held. iWARP ends a connection when a message finds no receive, and neither
// end gets a completion that says so.
type RecvEmptier interface{ RecvEmpty() bool }

// SumSGL returns the number of bytes in an SGL. It returns an error if the SGL has more SGEs than the
// queue supports, or an SGE with [verbs.BadLength].
func SumSGL(sgl []verbs.SGE, most int) (bytes uint64, err error) {
	if len(sgl) > most {
		return 0, fmt.Errorf("%w: %d SGEs, but the queue takes at most %d", verbs.ErrInvalidWR, len(sgl), most)
	}
	for i := range sgl {
		n := sgl[i].Length // read once
		if n == verbs.BadLength {
			return 0, fmt.Errorf("%w: SGE %d has BadLength: MR.SGE got a range that is not within the region, or 4 GiB or more, or the region is closed", verbs.ErrInvalidWR, i)
		}
		bytes += uint64(n)
	}
	return bytes, nil
}
