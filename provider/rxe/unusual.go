package rxe

import (
	"fmt"
	"math/bits"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// putUnusual fills in the fields that most requests do not use: further SGEs, inline data,
// and the fields that only some opcodes or only UD have, most of them in the union. It
// makes the checks that send did not make. A change of a window comes last, because it
// can't be undone.
func (q *qp) putUnusual(e *abi.RxeSendWqe, wr *verbs.SendWR, has parts, length uint32, sgl []verbs.SGE, inline []byte) error {
	for i := 1; i < len(sgl); i++ {
		putSGE(&e.Dma, i, &sgl[i])
	}
	if inline != nil {
		putInline(e, has, inline)
	}
	switch {
	case has&withImm != 0:
		e.Wr.Ex = bits.ReverseBytes32(wr.Imm) // most significant byte first; both platforms are little-endian
	case has&withInv != 0:
		return q.putInvalidate(e, has, wr.InvalidateRKey)
	case has&withAtomic != 0:
		*arm[abi.RxeSendWrAtomic](&e.Wr) = abi.RxeSendWrAtomic{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey, CompareAdd: wr.CompareAdd, Swap: wr.Swap}
	case has&withFlush != 0:
		return q.putFlush(e, wr, wr.Flush)
	case has&withBind != 0:
		return q.putBind(e, wr.Bind)
	}
	if has&withAH != 0 {
		return q.putDatagram(e, wr, wr.AH, length)
	}
	return nil
}

// maxDatagram is the largest MTU that a port can have. The kernel drops longer datagrams
// than the port's MTU, and completes them as if they had been sent.
const maxDatagram = 4096

// putDatagram fills in the destination of a datagram. It reads the AH once, because the AH
// may be closed at any time.
func (q *qp) putDatagram(e *abi.RxeSendWqe, wr *verbs.SendWR, address *verbs.AH, length uint32) error {
	switch {
	case address == nil:
		return fmt.Errorf("%w: a UD QP sends to an AH, and there is none", verbs.ErrInvalidWR)
	case length > maxDatagram:
		return fmt.Errorf("%w: %d bytes on a UD QP, no port's MTU is above %d", verbs.ErrInvalidWR, length, maxDatagram)
	}
	to, open := address.Data().(*ah)
	switch {
	case !open:
		return fmt.Errorf("%w: the AH is closed", verbs.ErrInvalidWR)
	case to.pd != q.pd:
		return fmt.Errorf("%w: the AH and the QP belong to different PDs", verbs.ErrInvalidWR)
	}
	*arm[abi.RxeSendWrUd](&e.Wr) = abi.RxeSendWrUd{RemoteQpn: wr.RemoteQPN, RemoteQkey: wr.RemoteQKey, AhNum: to.num}
	return nil
}

func (q *qp) putFlush(e *abi.RxeSendWqe, wr *verbs.SendWR, f verbs.Flush) error {
	switch {
	case f.Type == 0 || f.Type&^(verbs.FlushGlobal|verbs.FlushPersistent) != 0:
		return fmt.Errorf("%w: unknown type of flush %#x", verbs.ErrInvalidWR, uint8(f.Type))
	case f.Level > verbs.FlushMR:
		return fmt.Errorf("%w: unknown level of flush %#x", verbs.ErrInvalidWR, uint8(f.Level))
	case f.Type&verbs.FlushGlobal != 0 && q.caps&verbs.DeviceCapFlushGlobal == 0,
		f.Type&verbs.FlushPersistent != 0 && q.caps&verbs.DeviceCapFlushPersistent == 0:
		return fmt.Errorf("%w: this kernel's rxe has no flush of type %#x", verbs.ErrNotSupported, uint8(f.Type))
	}
	putLength(&e.Dma, f.Length, 0)
	*arm[abi.RxeSendWrFlush](&e.Wr) = abi.RxeSendWrFlush{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey, Length: f.Length, Type: uint8(f.Type), Level: uint8(f.Level)}
	return nil
}
