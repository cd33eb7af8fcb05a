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
	c, err := q.check(wr)
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
	q.fill(e, wr, &c)
	if wr.Inline != nil {
		copy(q.sq.Tail(), wr.Inline)
	} else {
		putSGL(q.sq.Tail(), wr.SGL)
	}
	q.sq.Advance()
	if c.has&withBind != 0 {
		wr.Bind.MW.Bound(wr.Bind.RKey)
	}
	return nil
}

// fill makes the fixed part of an entry. All of it counts: the kernel leaves in
// the queue what it noted about an earlier request, and believes what it finds.
func (q *qp) fill(e *abi.RxeSendWqe, wr *uverbs.SendWR, c *checked) {
	*e = abi.RxeSendWqe{}
	e.Wr.WrId, e.Wr.Opcode, e.Wr.SendFlags = wr.WRID, uint32(wr.Opcode), uint32(wr.Flags)
	if wr.Inline != nil && c.has&withSGL != 0 {
		e.Wr.SendFlags |= abi.IB_SEND_INLINE
	}
	switch {
	case c.has&withImm != 0:
		e.Wr.Ex = bits.ReverseBytes32(wr.Imm) // most significant byte first; both platforms are little-endian
	case c.has&withInv != 0:
		e.Wr.Ex = wr.InvalidateRKey
	}
	q.putArm(e.Wr.Wr[:], wr, c)
	if c.has&withRemote != 0 {
		e.Iova = wr.RemoteAddr // the address that goes into the packet
	}
	e.Dma = abi.RxeDmaInfo{Length: c.length, Resid: c.length, NumSge: uint32(len(wr.SGL))}
}

// putArm fills the union in struct rxe_send_wr.
func (q *qp) putArm(to []byte, wr *uverbs.SendWR, c *checked) {
	switch {
	case q.typ == uverbs.QPTypeUD:
		ud := abi.RxeSendWrUd{RemoteQpn: wr.RemoteQPN, RemoteQkey: wr.RemoteQKey, AhNum: uint32(c.ah)}
		copy(to, abi.Bytes(&ud))
	case c.has&withAtomic != 0:
		atomic := abi.RxeSendWrAtomic{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey, CompareAdd: wr.CompareAdd, Swap: wr.Swap}
		copy(to, abi.Bytes(&atomic))
	case c.has&withFlush != 0:
		flush := abi.RxeSendWrFlush{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey,
			Length: wr.Flush.Length, Type: uint8(wr.Flush.Type), Level: uint8(wr.Flush.Level)}
		copy(to, abi.Bytes(&flush))
	case c.has&withRemote != 0:
		rdma := abi.RxeSendWrRdma{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey}
		copy(to, abi.Bytes(&rdma))
	case c.has&withBind != 0:
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
