package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/uverbs/driver"
)

const allSendFlags = driver.SendFence | driver.SendSignaled | driver.SendSolicited

// check refuses what the kernel would answer with a QP in the error state, or
// with silence. It tells what the request has, and the length of its message in
// bytes.
func (q *qp) check(wr *driver.SendWR, sgl []driver.SGE, inline []byte) (has parts, length uint32, err error) {
	if has = q.partsOf(wr.Opcode); has == 0 {
		return 0, 0, refusal(wr.Opcode, q.typ)
	}
	if wr.Flags&^allSendFlags != 0 {
		return 0, 0, fmt.Errorf("%w: unknown flags %#x", driver.ErrInvalidWR, uint32(wr.Flags&^allSendFlags))
	}
	if length, err = q.checkData(wr.Opcode, has, sgl, inline); err != nil {
		return 0, 0, err
	}
	switch {
	case has&(withAtomic|withBind|withFlush) == 0:
	case has&withAtomic != 0 && length != atomicSize:
		err = fmt.Errorf("%w: the result of %v takes %d bytes, SGL names %d", driver.ErrInvalidWR, wr.Opcode, atomicSize, length)
	case has&withBind != 0:
		err = q.checkBind(wr.Bind)
	case has&withFlush != 0:
		err = q.checkFlush(&wr.Flush)
		length = wr.Flush.Length
	}
	return has, length, err
}

// partsOf is 0 for what the QP can't be trusted with.
func (q *qp) partsOf(op driver.Opcode) parts {
	if int64(op) < int64(len(q.parts)) {
		return q.parts[op]
	}
	return 0
}

const atomicSize = 8

func (q *qp) checkData(op driver.Opcode, has parts, sgl []driver.SGE, inline []byte) (uint32, error) {
	if inline == nil && has&withSGL != 0 {
		return lengthOf(sgl, q.maxSGE)
	}
	switch {
	case op == driver.OpAtomicWrite && (len(inline) != atomicSize || len(sgl) > 0):
		return 0, fmt.Errorf("%w: %v takes its %d bytes from Inline", driver.ErrInvalidWR, op, atomicSize)
	case has&withSGL == 0 && len(sgl) > 0:
		return 0, fmt.Errorf("%w: %v takes no SGL", driver.ErrInvalidWR, op)
	case has&withInline == 0 && inline != nil:
		return 0, fmt.Errorf("%w: %v takes no Inline", driver.ErrInvalidWR, op)
	case len(sgl) > 0 && inline != nil:
		return 0, fmt.Errorf("%w: both SGL and Inline are set", driver.ErrInvalidWR)
	case op != driver.OpAtomicWrite && len(inline) > q.maxInline:
		return 0, fmt.Errorf("%w: %d bytes inline, the QP takes %d (QPOptions.Cap.MaxInline asks for more; rdmacm has it as Config.QP.Cap.MaxInline)",
			driver.ErrInvalidWR, len(inline), q.maxInline)
	}
	return uint32(len(inline)), nil
}

// maxDatagram is the largest MTU that a port can have. The kernel drops what is
// longer than the port's MTU, and completes it as if it had been sent.
const maxDatagram = 4096

// checkDatagram asks the AH once: it may be closed at any time.
func (q *qp) checkDatagram(wr *driver.SendWR, length uint32) (num uint32, err error) {
	switch {
	case wr.AH == nil:
		return 0, fmt.Errorf("%w: a UD QP sends to an AH, and there is none", driver.ErrInvalidWR)
	case length > maxDatagram:
		return 0, fmt.Errorf("%w: %d bytes on a UD QP, no port's MTU is above %d", driver.ErrInvalidWR, length, maxDatagram)
	}
	to, open := wr.AH.Data().(*ah)
	switch {
	case !open:
		return 0, fmt.Errorf("%w: the AH is closed", driver.ErrInvalidWR)
	case to.pd != q.pd:
		return 0, fmt.Errorf("%w: the AH and the QP belong to different PDs", driver.ErrInvalidWR)
	}
	return to.num, nil
}

// checkBind leaves to bind what is the same for all drivers.
func (q *qp) checkBind(b *driver.BindMW) error {
	switch {
	case b == nil || b.MW == nil:
		return fmt.Errorf("%w: there is no window to bind", driver.ErrInvalidWR)
	case b.MR == nil && b.Length > 0:
		return fmt.Errorf("%w: a window of %d bytes needs an MR", driver.ErrInvalidWR, b.Length)
	}
	return nil
}

func (q *qp) checkFlush(f *driver.Flush) error {
	switch {
	case f.Type == 0 || f.Type&^(driver.FlushGlobal|driver.FlushPersistent) != 0:
		return fmt.Errorf("%w: unknown type of flush %#x", driver.ErrInvalidWR, uint8(f.Type))
	case f.Level > driver.FlushMR:
		return fmt.Errorf("%w: unknown level of flush %#x", driver.ErrInvalidWR, uint8(f.Level))
	case f.Type&driver.FlushGlobal != 0 && q.caps&driver.DeviceCapFlushGlobal == 0,
		f.Type&driver.FlushPersistent != 0 && q.caps&driver.DeviceCapFlushPersistent == 0:
		return fmt.Errorf("%w: this kernel's rxe has no flush of type %#x", driver.ErrNotSupported, uint8(f.Type))
	}
	return nil
}
