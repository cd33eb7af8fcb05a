package rxe

import (
	"errors"
	"fmt"
	"math/bits"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend queues sends. It fills entries, publishes them with one store, and rings the
// doorbell once. It refuses sends before RTS, because the kernel would not look at them
// until a later doorbell.
func (q *qp) PostSend(wrs []verbs.SendWR) (n int, err error) {
	if s := q.state; s < verbs.QPStateRTS {
		return 0, fmt.Errorf("%w: the QP is in %v; sends can be posted from RTS on", syscall.EINVAL, s)
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
		q.doorbellFailed = true
		return n, errors.Join(errDoorbell(e), err)
	}
	return n, err
}

// retryDoorbell rings the doorbell again for sends whose doorbell failed. Posts that queue
// nothing call it: otherwise a full queue whose doorbell failed would stay full.
func (q *qp) retryDoorbell(err error) error {
	if !q.doorbellFailed {
		return err
	}
	if e := q.doorbell(); e != nil {
		return errors.Join(errDoorbell(e), err)
	}
	q.doorbellFailed = false
	return err
}

func errDoorbell(err error) error {
	return fmt.Errorf("%w: the work requests are queued, but the kernel was not notified; the next post notifies it", err)
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

const allSendFlags = verbs.SendFence | verbs.SendSignaled | verbs.SendSolicited

// check returns an error for a request that the kernel would answer with a QP in the error
// state, or would ignore. It stores its copy of the request in q.checked.
func (q *qp) check(wr *verbs.SendWR) (err error) {
	r := &q.checked
	*r = request{op: wr.Opcode, flags: wr.Flags, sgl: wr.SGL, inline: wr.Inline}
	r.has = q.partsOf(r.op)
	switch {
	case r.has == 0:
		return refusal(r.op, q.typ)
	case r.flags&^allSendFlags != 0:
		return fmt.Errorf("%w: unknown flags %#x", verbs.ErrInvalidWR, uint32(r.flags&^allSendFlags))
	}
	r.length, err = q.checkData(r)
	if err == nil && r.has&withAtomic != 0 && r.length != atomicSize {
		err = fmt.Errorf("%w: the result of %v takes %d bytes, but SGL has %d", verbs.ErrInvalidWR, r.op, atomicSize, r.length)
	}
	if len(r.sgl) > 1 {
		r.has |= withRest
	}
	return err
}

// partsOf returns the parts of an opcode, or 0 if the QP must not send it.
func (q *qp) partsOf(op verbs.Opcode) parts {
	if int64(op) < int64(len(q.parts)) {
		return q.parts[op]
	}
	return 0
}

const atomicSize = 8

func (q *qp) checkData(r *request) (length uint32, err error) {
	op, has, sgl, inline := r.op, r.has, r.sgl, r.inline
	if inline == nil && has&withSGL != 0 {
		return lengthOf(sgl, q.maxSGE)
	}
	switch {
	case op == verbs.OpAtomicWrite && (len(inline) != atomicSize || len(sgl) > 0):
		return 0, fmt.Errorf("%w: %v takes its %d bytes from Inline", verbs.ErrInvalidWR, op, atomicSize)
	case has&withSGL == 0 && len(sgl) > 0:
		return 0, fmt.Errorf("%w: %v takes no SGL", verbs.ErrInvalidWR, op)
	case has&withInline == 0 && inline != nil:
		return 0, fmt.Errorf("%w: %v takes no Inline data", verbs.ErrInvalidWR, op)
	case len(sgl) > 0 && inline != nil:
		return 0, fmt.Errorf("%w: both SGL and Inline are set", verbs.ErrInvalidWR)
	case op != verbs.OpAtomicWrite && len(inline) > q.maxInline:
		return 0, fmt.Errorf("%w: %d bytes inline, but the QP takes at most %d (QPOptions.Cap.MaxInline asks for more; rdmacm has it as Config.QP.Cap.MaxInline)",
			verbs.ErrInvalidWR, len(inline), q.maxInline)
	}
	return uint32(len(inline)), nil
}

// opcode lists the QP types that an opcode can be posted to, and the fields that it uses.
type opcode struct {
	types services
	has   parts
	needs verbs.DeviceCap // the kernel supports it if the device has one of these; 0: all kernels do
}

type services uint8

const (
	onRC services = 1 << iota
	onUC
	onUD
)

type parts uint16

const (
	withSGL    parts = 1 << iota // data named by SGL
	withInline                   // or in Inline
	withRemote                   // RemoteAddr and RKey
	withImm
	withInv    // InvalidateRKey
	withAtomic // CompareAdd and Swap
	withBind
	withFlush
	withAH   // on UD QPs, with every opcode
	withRest // more than one SGE, with every opcode

	// The opcode has no special rules for SGL, or for Inline.
	easySGL
	easyInline

	unusual = withImm | withInv | withAtomic | withBind | withFlush | withAH | withRest
)

// opcodes lists the opcodes that the kernel can carry out. RDMA_READ_WITH_INV, and
// SEND_WITH_INV on UC, are in the kernel's table, but have no packet format: the kernel
// would complete them with an error, and the QP would fail.
var opcodes = [...]opcode{
	verbs.OpRDMAWrite:    {types: onRC | onUC, has: withSGL | withInline | withRemote},
	verbs.OpRDMAWriteImm: {types: onRC | onUC, has: withSGL | withInline | withRemote | withImm},
	verbs.OpSend:         {types: onRC | onUC | onUD, has: withSGL | withInline},
	verbs.OpSendImm:      {types: onRC | onUC | onUD, has: withSGL | withInline | withImm},
	verbs.OpSendWithInv:  {types: onRC, has: withSGL | withInline | withInv},
	verbs.OpRDMARead:     {types: onRC, has: withSGL | withRemote},
	verbs.OpCompareSwap:  {types: onRC, has: withSGL | withRemote | withAtomic},
	verbs.OpFetchAdd:     {types: onRC, has: withSGL | withRemote | withAtomic},
	verbs.OpLocalInv:     {types: onRC, has: withInv},
	verbs.OpBindMW:       {types: onRC | onUC, has: withBind},
	verbs.OpFlush: {types: onRC, has: withRemote | withFlush,
		needs: verbs.DeviceCapFlushGlobal | verbs.DeviceCapFlushPersistent},
	verbs.OpAtomicWrite: {types: onRC, has: withInline | withRemote, needs: verbs.DeviceCapAtomicWrite},
}

// Supports implements driver.Supporter.
func (c *rxeContext) Supports(t verbs.QPType, op verbs.Opcode) bool {
	return int64(op) < int64(len(opcodes)) && opcodes[op].isOn(t) && opcodes[op].isIn(c.caps)
}

// partsOf returns the parts of each opcode, 0 for those that a QP of this type must not
// send. The kernel must never see another opcode: it uses the number as an index.
func partsOf(t verbs.QPType, caps verbs.DeviceCap) (all [len(opcodes)]parts) {
	for op := range all {
		if o := &opcodes[op]; o.isOn(t) && o.isIn(caps) {
			all[op] = o.has
			if o.has&(withSGL|withAtomic) == withSGL {
				all[op] |= easySGL
			}
			if o.has&(withSGL|withInline) == withSGL|withInline {
				all[op] |= easyInline
			}
			if t == verbs.QPTypeUD {
				all[op] |= withAH
			}
		}
	}
	return all
}

func (o *opcode) isOn(t verbs.QPType) bool { return o.types&service(t) != 0 }

func (o *opcode) isIn(caps verbs.DeviceCap) bool { return o.needs == 0 || o.needs&caps != 0 }

// refusal returns the error for an opcode that the QP does not support.
func refusal(op verbs.Opcode, t verbs.QPType) error {
	if int64(op) < int64(len(opcodes)) && opcodes[op].isOn(t) {
		return fmt.Errorf("%w: this kernel's rxe does not support %v", verbs.ErrNotSupported, op)
	}
	return fmt.Errorf("%w: rxe does not support %v on %v QPs", verbs.ErrNotSupported, op, t)
}

func service(t verbs.QPType) services {
	switch t {
	case verbs.QPTypeRC:
		return onRC
	case verbs.QPTypeUC:
		return onUC
	case verbs.QPTypeUD:
		return onUD
	}
	return 0
}

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
func (q *qp) putDatagram(e *abi.RxeSendWqe, wr *verbs.SendWR, address verbs.AH, length uint32) error {
	switch {
	case length > maxDatagram:
		return fmt.Errorf("%w: %d bytes on a UD QP, but the largest MTU is %d", verbs.ErrInvalidWR, length, maxDatagram)
	}
	to, open := driver.AHData(address).(*ah)
	switch {
	case !open:
		return fmt.Errorf("%w: a UD QP needs an open AH", verbs.ErrInvalidWR)
	case to.pd != q.pd:
		return fmt.Errorf("%w: the AH and the QP belong to different PDs", verbs.ErrInvalidWR)
	}
	*arm[abi.RxeSendWrUd](&e.Wr) = abi.RxeSendWrUd{RemoteQpn: wr.RemoteQPN, RemoteQkey: wr.RemoteQKey, AhNum: to.num}
	return nil
}

func (q *qp) putFlush(e *abi.RxeSendWqe, wr *verbs.SendWR, f verbs.Flush) error {
	switch {
	case f.Type == 0 || f.Type&^(verbs.FlushGlobal|verbs.FlushPersistent) != 0:
		return fmt.Errorf("%w: unknown flush type %#x", verbs.ErrInvalidWR, uint8(f.Type))
	case f.Level > verbs.FlushMR:
		return fmt.Errorf("%w: unknown flush level %#x", verbs.ErrInvalidWR, uint8(f.Level))
	case f.Type&verbs.FlushGlobal != 0 && q.caps&verbs.DeviceCapFlushGlobal == 0,
		f.Type&verbs.FlushPersistent != 0 && q.caps&verbs.DeviceCapFlushPersistent == 0:
		return fmt.Errorf("%w: this kernel's rxe does not support flush type %#x", verbs.ErrNotSupported, uint8(f.Type))
	}
	putLength(&e.Dma, f.Length, 0)
	*arm[abi.RxeSendWrFlush](&e.Wr) = abi.RxeSendWrFlush{RemoteAddr: wr.RemoteAddr, Rkey: wr.RKey, Length: f.Length, Type: uint8(f.Type), Level: uint8(f.Level)}
	return nil
}

// Bindings and invalidations are recorded before they are queued.
//
// A bound window holds a reference to its QP. When the kernel destroys the QP, it waits 50
// seconds for such references, and then frees the QP anyway. A window that is not bound has
// no QP; a kernel that invalidates it reads the QP nevertheless, at address 0
// (rxe_do_invalidate_mw, Linux 6.1 to 7.2).

// putBind fills in a BIND_MW. It makes the checks that only rxe needs; bind makes those
// that are the same for all drivers. Both use a copy, which the program can't change.
func (q *qp) putBind(e *abi.RxeSendWqe, asked *verbs.BindMW) error {
	if asked == nil {
		return errNoWindow
	}
	q.binding = *asked
	b := &q.binding
	switch {
	case b.MW == nil:
		return errNoWindow
	case b.MR == nil && b.Length > 0:
		return fmt.Errorf("%w: a window of %d bytes needs an MR", verbs.ErrInvalidWR, b.Length)
	}
	mw := abi.RxeSendWrMw{Addr: b.Addr, Length: b.Length, MwRkey: b.MW.RKey(), Rkey: b.RKey, Access: uint32(b.Access)}
	if b.MR != nil {
		mw.MrLkey = b.MR.LKey()
	}
	*arm[abi.RxeSendWrMw](&e.Wr) = mw
	err := q.bind(b, b.MW.Type() == verbs.MWType2)
	q.binding = verbs.BindMW{} // so that the QP does not keep the window and the region reachable
	return err
}

var errNoWindow = fmt.Errorf("%w: no window to bind", verbs.ErrInvalidWR)

// putInvalidate fills in the key to invalidate. For LOCAL_INV of a window it also records
// that the binding ends. The key of a SEND_WITH_INV is the peer's.
func (q *qp) putInvalidate(e *abi.RxeSendWqe, has parts, rkey uint32) error {
	e.Wr.Ex = rkey
	if has&withSGL == 0 && isWindow(rkey) && !q.unbind(rkey) {
		return fmt.Errorf("%w: %#x is not the key of a bound window of type 2", verbs.ErrInvalidWR, rkey)
	}
	return nil
}

// isWindow reports whether a key is a window's, as rkey_is_mw does.
func isWindow(rkey uint32) bool { return rkey>>8 > maxMRIndex }

const maxMRIndex = 1 << 19 // RXE_MAX_MR_INDEX
