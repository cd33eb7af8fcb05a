package rxe

import (
	"errors"
	"fmt"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs/driver"
)

// PostSend fills entries, hands them to the kernel with one store, and rings the
// doorbell once. Before RTS the kernel would let them lie until somebody rings
// after that, so they are refused here.
func (q *qp) PostSend(wrs []driver.SendWR) (n int, err error) {
	if s := q.state; s < driver.QPStateRTS {
		return 0, fmt.Errorf("%w: the QP is in %v, sends can be posted from RTS on", syscall.EINVAL, s)
	}
	slots, room, err := q.sq.Room(len(wrs))
	if err != nil {
		return 0, errCorrupt
	}
	for i := range wrs {
		var e *abi.RxeSendWqe
		if i < room {
			e = slots.At(i)
		}
		if err = q.send(e, &wrs[i]); err != nil {
			break
		}
		n++
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

// send fills e, which is nil when the queue is full. What most requests are, data
// and perhaps where it goes, takes no call.
func (q *qp) send(e *abi.RxeSendWqe, wr *driver.SendWR) error {
	sgl, inline, has := wr.SGL, wr.Inline, q.partsOf(wr.Opcode) // what is checked is what is used
	if e == nil || has&(withSGL|unusual) != withSGL || wr.Flags&^allSendFlags != 0 {
		return q.sendAny(e, wr, sgl, inline)
	}
	var length uint32
	switch {
	case inline == nil && isOne(sgl, q.maxSGE):
		length = sgl[0].Length
	case inline != nil && len(inline) <= q.maxInline && len(sgl) == 0 && has&withInline != 0:
		length = uint32(len(inline))
	default:
		return q.sendAny(e, wr, sgl, inline)
	}
	putHead(e, wr)
	if has&withRemote != 0 {
		*arm[abi.RxeSendWrRdma](&e.Wr) = rdmaArm(wr)
		e.Iova = wr.RemoteAddr // the address that goes into the packet
	}
	putLength(&e.Dma, length, len(sgl))
	if inline != nil {
		putInline(e, wr, inline)
		return nil
	}
	putSGE(&e.Dma, 0, &sgl[0])
	return nil
}

func (q *qp) sendAny(e *abi.RxeSendWqe, wr *driver.SendWR, sgl []driver.SGE, inline []byte) error {
	has, length, err := q.check(wr, sgl, inline)
	if err != nil {
		return err
	}
	if e == nil {
		return driver.ErrQueueFull
	}
	putHead(e, wr)
	putDMA(&e.Dma, length, sgl)
	if has&^(withSGL|withInline) != 0 {
		putParts(e, wr, has)
	}
	if has&withAH != 0 {
		ah, err := q.checkDatagram(wr, length)
		if err != nil {
			return err
		}
		*arm[abi.RxeSendWrUd](&e.Wr) = abi.RxeSendWrUd{RemoteQpn: wr.RemoteQPN, RemoteQkey: wr.RemoteQKey, AhNum: ah}
	}
	switch {
	case inline == nil:
	case has&withSGL != 0:
		putInline(e, wr, inline)
	default: // ATOMIC_WRITE has its data there too, but does not say so
		copy(bytesBehind(&e.Dma, len(inline)), inline)
	}
	if has&(withBind|withInv) != 0 {
		return q.followWindow(wr)
	}
	return nil
}

// putHead makes the fixed part of an entry, but for the union, of which the kernel
// reads only what belongs to the opcode. All else counts: the kernel leaves in the
// queue what it noted about an earlier request, and believes what it finds.
func putHead(e *abi.RxeSendWqe, wr *driver.SendWR) {
	e.Wr.WrId, e.Wr.Reserved, e.Wr.Opcode, e.Wr.SendFlags, e.Wr.Ex = wr.WRID, 0, uint32(wr.Opcode), uint32(wr.Flags), 0
	e.Status, e.State, e.Iova, e.Mask, e.FirstPsn, e.LastPsn, e.AckLength, e.Ssn, e.HasRdAtomic = 0, 0, 0, 0, 0, 0, 0, 0, 0
}

// putInline stores the data where the SGEs would be, and says so.
func putInline(e *abi.RxeSendWqe, wr *driver.SendWR, data []byte) {
	e.Wr.SendFlags = uint32(wr.Flags) | abi.IB_SEND_INLINE
	copy(bytesBehind(&e.Dma, len(data)), data)
}

// putParts fills in what some opcodes have.
func putParts(e *abi.RxeSendWqe, wr *driver.SendWR, has parts) {
	switch {
	case has&withImm != 0:
		e.Wr.Ex = bits.ReverseBytes32(wr.Imm) // most significant byte first; both platforms are little-endian
	case has&withInv != 0:
		e.Wr.Ex = wr.InvalidateRKey
	}
	switch {
	case has&withAtomic != 0:
		*arm[abi.RxeSendWrAtomic](&e.Wr) = abi.RxeSendWrAtomic{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey, CompareAdd: wr.CompareAdd, Swap: wr.Swap}
	case has&withFlush != 0:
		*arm[abi.RxeSendWrFlush](&e.Wr) = abi.RxeSendWrFlush{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey,
			Length: wr.Flush.Length, Type: uint8(wr.Flush.Type), Level: uint8(wr.Flush.Level)}
	case has&withRemote != 0:
		*arm[abi.RxeSendWrRdma](&e.Wr) = rdmaArm(wr)
	case has&withBind != 0:
		*arm[abi.RxeSendWrMw](&e.Wr) = bindArm(wr.Bind)
	}
	if has&withRemote != 0 {
		e.Iova = wr.RemoteAddr // the address that goes into the packet
	}
}

func rdmaArm(wr *driver.SendWR) abi.RxeSendWrRdma {
	return abi.RxeSendWrRdma{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey}
}

func bindArm(b *driver.BindMW) abi.RxeSendWrMw {
	mw := abi.RxeSendWrMw{Addr: b.Addr, Length: b.Length, MwRkey: b.MW.RKey(), Rkey: b.RKey, Access: uint32(b.Access)}
	if b.MR != nil {
		mw.MrLkey = b.MR.LKey()
	}
	return mw
}
