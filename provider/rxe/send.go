package rxe

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend fills entries, hands them to the kernel with one store, and rings the
// doorbell once. Before RTS the kernel would let them lie until somebody rings
// after that, so they are refused here.
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
		return 0, q.tellAgain(err)
	}
	q.sq.Publish(n)
	if e := q.doorbell(); e != nil {
		q.untold = true
		return n, errors.Join(errUntold(e), err)
	}
	return n, err
}

// tellAgain rings the doorbell for sends that an earlier one failed for. It is for posts
// that queue nothing: above all, a full queue that nobody tells of stays full.
func (q *qp) tellAgain(err error) error {
	if !q.untold {
		return err
	}
	if e := q.doorbell(); e != nil {
		return errors.Join(errUntold(e), err)
	}
	q.untold = false
	return err
}

func errUntold(err error) error {
	return fmt.Errorf("%w: the kernel was not told of what is queued, the next post tells it", err)
}

// full is why a request can't be posted when there is no room for it: what is wrong
// with it, or else that.
func (q *qp) full(wr *verbs.SendWR) error {
	if err := q.check(wr); err != nil {
		return err
	}
	return verbs.ErrQueueFull
}

// request is what check read of a work request, and is what is used.
type request struct {
	op     verbs.Opcode
	flags  verbs.SendFlags
	has    parts
	sgl    []verbs.SGE
	inline []byte
	length uint32 // of the message, in bytes
}

// send fills e. Most requests carry one SGE or inline data, and their opcode has no rules
// of its own: send checks those itself and calls check for the rest. It uses nothing after
// that call that it has read before, so that the compiler keeps the values of the short
// path in registers.
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
		r.sgl, r.inline = nil, nil // the program's, which the QP must not keep reachable
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

// putHead makes the fixed part of an entry, but for the union, of which the kernel
// reads only what belongs to the opcode. All else counts: the kernel leaves in the
// queue what it noted about an earlier request, and believes what it finds.
func putHead(e *abi.RxeSendWqe, wrID uint64, op verbs.Opcode, flags verbs.SendFlags) {
	e.Wr.WrId, e.Wr.Reserved, e.Wr.Opcode, e.Wr.SendFlags, e.Wr.Ex = wrID, 0, uint32(op), uint32(flags), 0
	e.Status, e.State, e.Iova, e.Mask, e.FirstPsn, e.LastPsn, e.AckLength, e.Ssn, e.HasRdAtomic = 0, 0, 0, 0, 0, 0, 0, 0, 0
}

// putInline stores the data where the SGEs would be, and says so, except in an
// ATOMIC_WRITE, which has no SGEs.
func putInline(e *abi.RxeSendWqe, has parts, data []byte) {
	if has&withSGL != 0 {
		e.Wr.SendFlags |= abi.IB_SEND_INLINE
	}
	copy(bytesBehind(&e.Dma, len(data)), data)
}
