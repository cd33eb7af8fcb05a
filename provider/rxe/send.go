package rxe

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend queues sends. It fills entries, publishes them with one store, and rings the
// doorbell once. It refuses sends before RTS, because the kernel would not look at them
// until a later doorbell.
func (q *qp) PostSend(wrs []verbs.SendWR) (n int, err error) {
	if s := q.state; s < verbs.QPStateRTS {
		return 0, fmt.Errorf("%w: the QP is in %v, sends can be posted from RTS on", syscall.EINVAL, s)
	}
	slots, n, err := q.sq.Room(len(wrs))
	if err != nil {
		return 0, errCorrupt
	}
	batch := wrs[:n]
	for i := range batch {
		if err = q.send(slots.At(i), &batch[i]); err != nil {
			n = i
			break
		}
	}
	if n < len(wrs) && err == nil {
		err = q.full(&wrs[n])
	}
	if n == 0 {
		return 0, q.retryDoorbell(err)
	}
	q.sq.Publish(n)
	if e := q.doorbell(); e != nil {
		q.untold = true
		return n, errors.Join(errDoorbell(e), err)
	}
	return n, err
}

// retryDoorbell rings the doorbell again for sends whose doorbell failed. Posts that queue
// nothing call it: otherwise a full queue whose doorbell failed would stay full.
func (q *qp) retryDoorbell(err error) error {
	if !q.untold {
		return err
	}
	if e := q.doorbell(); e != nil {
		return errors.Join(errDoorbell(e), err)
	}
	q.untold = false
	return err
}

func errDoorbell(err error) error {
	return fmt.Errorf("%w: the kernel was not told of what is queued, the next post tells it", err)
}

// full returns the error for a request that has no room in the queue: the error of check,
// or else ErrQueueFull.
func (q *qp) full(wr *verbs.SendWR) error {
	if err := q.check(wr); err != nil {
		return err
	}
	return verbs.ErrQueueFull
}

// request is check's copy of a work request. Only the copy is used, because the program may
// change the original.
type request struct {
	op     verbs.Opcode
	flags  verbs.SendFlags
	has    parts
	sgl    []verbs.SGE
	inline []byte
	length uint32 // of the message, in bytes
}

// send fills e. Most requests carry one SGE or inline data, and their opcode has no special
// rules: send checks those itself and calls check for the rest. It uses nothing after that
// call that it has read before, so that the compiler keeps the values of the short path in
// registers.
func (q *qp) send(e *abi.RxeSendWqe, wr *verbs.SendWR) error {
	op, flags, sgl, inline := wr.Opcode, wr.Flags, wr.SGL, wr.Inline
	has, length := q.partsOf(op), uint32(0)
	switch {
	case inline == nil && has&easySGL != 0 && flags&^allSendFlags == 0 && len(sgl) == 1 && sgl[0].Length <= maxMessage: // q.maxSGE is not 0
		length = sgl[0].Length
	case has&easyInline != 0 && flags&^allSendFlags == 0 && len(inline) <= q.maxInline && len(sgl) == 0:
		length = uint32(len(inline))
	default:
		if err := q.check(wr); err != nil {
			return err
		}
		r := &q.checked
		op, flags, has, sgl, inline, length = r.op, r.flags, r.has, r.sgl, r.inline, r.length
		r.sgl, r.inline = nil, nil // so that the QP does not keep the program's memory reachable
	}
	putHead(e, wr.WRID, op, flags)
	if has&withRemote != 0 {
		*arm[abi.RxeSendWrRdma](&e.Wr) = abi.RxeSendWrRdma{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey}
		e.Iova = wr.RemoteAddr // the address that goes into the packet
	}
	putLength(&e.Dma, length, len(sgl))
	if len(sgl) > 0 {
		putSGE(&e.Dma, 0, &sgl[0])
	}
	if has&unusual != 0 {
		return q.putUnusual(e, wr, has, length, sgl, inline)
	}
	if inline != nil {
		putInline(e, has, inline)
	}
	return nil
}

// putHead fills the fixed part of an entry except for the union, of which the kernel reads
// only the opcode's member. All other fields must be written: the kernel leaves its notes
// about earlier requests in the entries, and trusts them.
func putHead(e *abi.RxeSendWqe, wrID uint64, op verbs.Opcode, flags verbs.SendFlags) {
	e.Wr.WrId, e.Wr.Reserved, e.Wr.Opcode, e.Wr.SendFlags, e.Wr.Ex = wrID, 0, uint32(op), uint32(flags), 0
	e.Status, e.State, e.Iova, e.Mask, e.FirstPsn, e.LastPsn, e.AckLength, e.Ssn, e.HasRdAtomic = 0, 0, 0, 0, 0, 0, 0, 0, 0
}

// putInline stores the data in place of the SGEs. It sets the inline flag, except for an
// ATOMIC_WRITE, which has no SGEs.
func putInline(e *abi.RxeSendWqe, has parts, data []byte) {
	if has&withSGL != 0 {
		e.Wr.SendFlags |= abi.IB_SEND_INLINE
	}
	copy(bytesBehind(&e.Dma, len(data)), data)
}
