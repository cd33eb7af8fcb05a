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
	for n < len(wrs) {
		if err = q.send(&wrs[n]); err != nil {
			break
		}
		n++
	}
	if n == 0 {
		return 0, err
	}
	q.sq.Publish()
	if e := q.doorbell.Ring(); e != nil {
		return n, fmt.Errorf("%w: the kernel was not told of the %d queued", e, n)
	}
	return n, err
}

func (q *qp) send(wr *uverbs.SendWR) error {
	o, length, err := q.check(wr)
	if err != nil {
		return err
	}
	e, err := q.sq.Next()
	switch {
	case err != nil:
		return errCorrupt
	case e == nil:
		return uverbs.ErrQueueFull
	}
	if err := q.checkWindow(wr); err != nil {
		return err
	}
	w := q.entry(wr, o, length)
	*e = w
	if wr.Inline != nil {
		copy(q.sq.Tail(), wr.Inline)
	} else {
		putSGL(q.sq.Tail(), wr.SGL)
	}
	q.sq.Advance()
	if o.has&withBind != 0 {
		wr.Bind.MW.Bound(wr.Bind.RKey)
	}
	return nil
}

// entry makes the fixed part of an entry. All of it counts: the kernel leaves in
// the queue what it noted about an earlier request, and believes what it finds.
func (q *qp) entry(wr *uverbs.SendWR, o opcode, length uint32) (w abi.RxeSendWqe) {
	w.Wr.WrId, w.Wr.Opcode, w.Wr.SendFlags = wr.WRID, uint32(wr.Opcode), uint32(wr.Flags)
	if wr.Inline != nil && o.has&withSGL != 0 {
		w.Wr.SendFlags |= abi.IB_SEND_INLINE
	}
	switch {
	case o.has&withImm != 0:
		w.Wr.Ex = bits.ReverseBytes32(wr.Imm) // most significant byte first; both platforms are little-endian
	case o.has&withInv != 0:
		w.Wr.Ex = wr.InvalidateRKey
	}
	q.putArm(w.Wr.Wr[:], wr, o)
	if o.has&withRemote != 0 {
		w.Iova = wr.RemoteAddr // the address that goes into the packet
	}
	if o.has&withFlush != 0 {
		length = wr.Flush.Length
	}
	w.Dma = abi.RxeDmaInfo{Length: length, Resid: length, NumSge: uint32(len(wr.SGL))}
	return w
}

// putArm fills the union in struct rxe_send_wr.
func (q *qp) putArm(to []byte, wr *uverbs.SendWR, o opcode) {
	switch {
	case q.typ == uverbs.QPTypeUD:
		ah, _ := wr.AH.Driver().(ahNum)
		ud := abi.RxeSendWrUd{RemoteQpn: wr.RemoteQPN, RemoteQkey: wr.RemoteQKey, AhNum: uint32(ah)}
		copy(to, abi.Bytes(&ud))
	case o.has&withAtomic != 0:
		atomic := abi.RxeSendWrAtomic{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey, CompareAdd: wr.CompareAdd, Swap: wr.Swap}
		copy(to, abi.Bytes(&atomic))
	case o.has&withFlush != 0:
		flush := abi.RxeSendWrFlush{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey,
			Length: wr.Flush.Length, Type: uint8(wr.Flush.Type), Level: uint8(wr.Flush.Level)}
		copy(to, abi.Bytes(&flush))
	case o.has&withRemote != 0:
		rdma := abi.RxeSendWrRdma{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey}
		copy(to, abi.Bytes(&rdma))
	case o.has&withBind != 0:
		mw := bindArm(wr.Bind)
		copy(to, abi.Bytes(&mw))
	}
}

func bindArm(b *uverbs.BindMW) abi.RxeSendWrMw {
	mw := abi.RxeSendWrMw{Addr: b.Addr, Length: b.Length, MwRkey: b.MW.RKey(), Rkey: b.RKey, Access: uint32(b.Access)}
	if b.MR != nil {
		mw.MrLkey = b.MR.LKey()
	}
	return mw
}
