package rxe

import (
	"fmt"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// PostSend fills entries, hands them to the kernel with one store, and rings the
// doorbell once. Before RTS the kernel would let them lie until somebody rings
// after that, so they are refused here.
func (q *qp) PostSend(wrs []uverbs.SendWR) (n int, err error) {
	if s := q.request.State(); s < uverbs.QPStateRTS {
		return 0, fmt.Errorf("%w: the QP is in %v, sends can be posted from RTS on", syscall.EINVAL, s)
	}
	slots, room, err := q.sq.Room(len(wrs))
	if err != nil {
		return 0, errCorrupt
	}
	for n < len(wrs) && err == nil {
		var e *abi.RxeSendWqe
		if n < room {
			e = slots.At(n)
		}
		if err = q.send(e, &wrs[n]); err == nil {
			n++
		}
	}
	if n == 0 {
		return 0, err
	}
	q.sq.Publish(n)
	if e := q.doorbell.Ring(); e != nil {
		return n, fmt.Errorf("%w: the kernel was not told of the %d queued", e, n)
	}
	return n, err
}

// send fills e, which is nil when the queue is full.
func (q *qp) send(e *abi.RxeSendWqe, wr *uverbs.SendWR) error {
	sgl, inline := wr.SGL, wr.Inline // what is checked is what is used
	has, length, err := q.check(wr, sgl, inline)
	if err != nil {
		return err
	}
	if e == nil {
		return uverbs.ErrQueueFull
	}
	if has&(withBind|withInv) != 0 {
		if err := q.checkWindow(wr); err != nil {
			return err
		}
	}
	fill(e, wr, length, sgl)
	if has&^(withSGL|withInline) != 0 {
		putParts(e, wr, has)
	}
	if q.typ == uverbs.QPTypeUD {
		ah, err := q.checkDatagram(wr, length)
		if err != nil {
			return err
		}
		*arm[abi.RxeSendWrUd](&e.Wr) = abi.RxeSendWrUd{RemoteQpn: wr.RemoteQPN, RemoteQkey: wr.RemoteQKey, AhNum: uint32(ah)}
	}
	if inline != nil {
		putInline(e, inline, has)
	}
	if has&withBind != 0 {
		wr.Bind.MW.Bound(wr.Bind.RKey)
	}
	return nil
}

// fill makes the fixed part of an entry, but for the union, of which the kernel
// reads only what belongs to the opcode. All else counts: the kernel leaves in the
// queue what it noted about an earlier request, and believes what it finds.
func fill(e *abi.RxeSendWqe, wr *uverbs.SendWR, length uint32, sgl []uverbs.SGE) {
	e.Wr.WrId, e.Wr.Reserved, e.Wr.Opcode, e.Wr.SendFlags, e.Wr.Ex = wr.WRID, 0, uint32(wr.Opcode), uint32(wr.Flags), 0
	e.Status, e.State, e.Iova, e.Mask, e.FirstPsn, e.LastPsn, e.AckLength, e.Ssn, e.HasRdAtomic = 0, 0, 0, 0, 0, 0, 0, 0, 0
	putDMA(&e.Dma, length, sgl)
}

// putInline stores the data where the SGEs would be. ATOMIC_WRITE has it there too,
// but does not say so.
func putInline(e *abi.RxeSendWqe, data []byte, has parts) {
	if has&withSGL != 0 {
		e.Wr.SendFlags |= abi.IB_SEND_INLINE
	}
	copy(bytesBehind(&e.Dma, len(data)), data)
}

// putParts fills in what some opcodes have.
func putParts(e *abi.RxeSendWqe, wr *uverbs.SendWR, has parts) {
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
		*arm[abi.RxeSendWrRdma](&e.Wr) = abi.RxeSendWrRdma{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey}
	case has&withBind != 0:
		*arm[abi.RxeSendWrMw](&e.Wr) = bindArm(wr.Bind)
	}
	if has&withRemote != 0 {
		e.Iova = wr.RemoteAddr // the address that goes into the packet
	}
}

func bindArm(b *uverbs.BindMW) abi.RxeSendWrMw {
	mw := abi.RxeSendWrMw{Addr: b.Addr, Length: b.Length, MwRkey: b.MW.RKey(), Rkey: b.RKey, Access: uint32(b.Access)}
	if b.MR != nil {
		mw.MrLkey = b.MR.LKey()
	}
	return mw
}
