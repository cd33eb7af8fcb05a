package efa

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// sendQueue is memory of the device, which is only written, in units of 64 bytes.
type sendQueue struct {
	wqes      *mmap.Page
	start     int // offset of the first entry
	doorbell  doorbell
	entries   uint32 // a power of two
	size      uint32 // of an entry
	depth     uint32 // sends that can be outstanding
	batch     uint32 // entries that may be written before the doorbell is rung
	pc        uint32 // entries written, free-running
	maxSGE    int
	maxInline int
	work      atomic.Pointer[pool]
	line      [8]uint64 // an entry that PostSend fills in; of the stack, it would be cleared first
}

// PostSend queues sends. It rings the doorbell once, or for each batch that the device takes. It posts
// requests with one SGE or short inline data, the most frequent ones, by itself.
func (q *qp) PostSend(wrs []verbs.SendWR) (n int, err error) {
	if q.state != verbs.QPStateRTS && q.state != verbs.QPStateSQD {
		return 0, q.notSending()
	}
	wrs = wrs[:len(wrs):len(wrs)] // one variable less
	s, unrung := &q.sq, uint32(0)
	e := &s.line
	for ; n < len(wrs); n++ {
		wr := &wrs[n]
		to, _ := driver.AHData(wr.AH).(*ah)
		op := uint64(wr.Opcode)
		if op >= uint64(len(q.heads)) {
			break
		}
		head := q.heads[op]
		if head == 0 || wr.Flags|q.signaled != verbs.SendSignaled || to == nil || to.pd != q.pd || wr.RemoteQPN > maxQPN {
			break
		}
		work := s.work.Load()
		if work.room() == 0 {
			break
		}
		head |= uint64(wr.RemoteQPN) << wqeQPNShift
		if inline, sgl := wr.Inline, wr.SGL; inline == nil { // the slices are read once, so the checked values are used
			if len(sgl) != 1 {
				break
			}
			length, key, addr := sgl[0].Length, sgl[0].LKey, sgl[0].Addr
			if length == verbs.BadLength || key > keyMask {
				break
			}
			head |= 1 << wqeLenShift
			e[4], e[5], e[6], e[7] = uint64(length)|uint64(key)<<32, addr, 0, 0
		} else {
			if len(inline) > shortInline || len(inline) > s.maxInline || len(sgl) > 0 {
				break
			}
			head |= wqeInline | uint64(len(inline))<<wqeLenShift
			e[4], e[5], e[6], e[7] = 0, 0, 0, 0
			data := (*[shortInline]byte)(abi.Line(e)[dataOffset:])
			if len(inline) >= 16 {
				// Two pieces that may overlap take fewer instructions than a call of copy.
				*(*[16]byte)(data[:]) = *(*[16]byte)(inline)
				*(*[16]byte)(data[len(inline)-16:]) = *(*[16]byte)(inline[len(inline)-16:])
			} else {
				copy(data[:], inline)
			}
		}
		if s.pc&s.entries != 0 {
			head |= wqePhase
		}
		id := work.take(wr.WRID)
		e[0] = head | id&idLow
		e[1], e[2] = uint64(to.number)<<wqeAHShift, uint64(wr.RemoteQKey)
		e[3] = id &^ idLow
		if unrung == 0 {
			s.wqes.StartWC()
		}
		s.wqes.Copy64(s.start+int(s.pc&(s.entries-1))*wqeSize, abi.Line(e))
		s.pc++
		if unrung++; unrung == s.batch {
			s.ring()
			unrung = 0
		}
	}
	if n < len(wrs) {
		n, unrung, err = q.postAll(wrs, n, unrung)
	}
	if unrung > 0 {
		s.ring()
	}
	return n, err
}

// notSending returns the error of sends before RTS and in ERR.
func (q *qp) notSending() error {
	return fmt.Errorf("%w: the QP is in %v; sends can be posted in RTS and SQD", syscall.EINVAL, q.state)
}

// postAll queues sends of all kinds from wrs[n] on. The doorbell has not been rung for the last unrung ones.
func (q *qp) postAll(wrs []verbs.SendWR, n int, unrung uint32) (int, uint32, error) {
	s, work := &q.sq, q.sq.work.Load()
	var e wqe
	for ; n < len(wrs); n++ {
		if err := q.encode(&e, &wrs[n]); err != nil {
			return n, unrung, err
		}
		if work.room() == 0 {
			return n, unrung, verbs.ErrQueueFull
		}
		id := work.take(wrs[n].WRID)
		e[0] |= id & idLow
		e[3] = id &^ idLow
		if s.pc&s.entries != 0 {
			e[0] |= wqePhase
		}
		if unrung == 0 {
			s.wqes.StartWC()
		}
		at := s.start + int((s.pc&(s.entries-1))*s.size)
		s.wqes.Copy64(at, (*[wqeSize]byte)(abi.Bytes(&e)))
		if s.size == longWQE {
			s.wqes.Copy64(at+wqeSize, (*[wqeSize]byte)(abi.Bytes(&e)[wqeSize:]))
		}
		s.pc++
		if unrung++; unrung == s.batch {
			s.ring()
			unrung = 0
		}
	}
	return n, unrung, nil
}

// ring rings the doorbell after the entries have left the processor. Later entries follow it.
func (s *sendQueue) ring() { s.doorbell.page.StoreWC32(s.doorbell.offset, s.pc&idLow) }

// form is what the requests of an opcode have in common.
type form struct {
	head   uint64 // of the entry, 0 if the QP does not have the opcode
	code   uint8  // the device's opcode
	imm    bool
	remote bool // a read or write
}

// noForm is the form of opcodes that EFA lacks.
var noForm form

// form returns the form of an opcode on a QP of type t.
func (c *efaContext) form(t verbs.QPType, op verbs.Opcode) form {
	f := form{remote: op != verbs.OpSend && op != verbs.OpSendImm, imm: op == verbs.OpSendImm || op == verbs.OpRDMAWriteImm}
	needed := uint32(0)
	switch op {
	case verbs.OpSend, verbs.OpSendImm:
		f.code = opSend
	case verbs.OpRDMARead:
		f.code, needed = opRead, abi.EFA_QUERY_DEVICE_CAPS_RDMA_READ
	case verbs.OpRDMAWrite, verbs.OpRDMAWriteImm:
		f.code, needed = opWrite, abi.EFA_QUERY_DEVICE_CAPS_RDMA_WRITE
	default:
		return form{}
	}
	if t != verbs.QPTypeSRD && (t != verbs.QPTypeUD || f.remote) || c.attr.DeviceCaps&needed != needed {
		return form{}
	}
	f.head = wqeAlways | uint64(f.code)<<wqeOpShift
	if f.imm {
		f.head |= wqeImm
	}
	return f
}

// encode checks a request and fills in its entry, without the fields that depend on its place in the
// queue. It reads each slice header once, so a caller that changes the request meanwhile does not evade the checks.
func (q *qp) encode(e *wqe, wr *verbs.SendWR) error {
	f := &noForm
	if op := uint64(wr.Opcode); op < uint64(len(q.forms)) {
		f = &q.forms[op]
	}
	to, _ := driver.AHData(wr.AH).(*ah)
	if f.head == 0 || wr.Flags|q.signaled != verbs.SendSignaled || to == nil || to.pd != q.pd || wr.RemoteQPN > maxQPN {
		return q.refuse(wr, to)
	}
	e[0] = f.head | uint64(wr.RemoteQPN)<<wqeQPNShift
	e[1] = uint64(to.number) << wqeAHShift
	e[2] = uint64(wr.RemoteQKey)
	e[4], e[5], e[6], e[7] = 0, 0, 0, 0 // e[3] has a part of the id only
	if q.sq.size == longWQE {
		clear(e[8:])
	}
	if f.imm {
		e[1] |= uint64(wr.Imm)
	}
	if inline := wr.Inline; inline != nil {
		return q.putInline(e, f, wr, inline)
	}
	sgl, at := wr.SGL, dataWord
	if len(sgl) > q.sq.maxSGE || f.remote && len(sgl) != 1 {
		return q.refuseSGL(wr, sgl)
	}
	e[0] |= uint64(len(sgl)) << wqeLenShift
	if f.remote {
		putRemote(e, wr, sgl[0].Length)
		at += 2
	}
	for i := range sgl {
		s := &sgl[i]
		length, key := s.Length, s.LKey
		if length == verbs.BadLength || key > keyMask {
			return q.refuseSGL(wr, sgl)
		}
		e[at&15], e[(at+1)&15] = uint64(length)|uint64(key)<<32, s.Addr // maxSGE SGEs fit
		at += 2
	}
	return nil
}

// refuse returns the error of a request that encode does not accept.
func (q *qp) refuse(wr *verbs.SendWR, to *ah) error {
	switch {
	case wr.Flags&^verbs.SendSignaled != 0:
		return fmt.Errorf("%w: flags %#x, EFA has only SendSignaled", verbs.ErrNotSupported, uint32(wr.Flags&^verbs.SendSignaled))
	case wr.Flags|q.signaled == 0:
		return fmt.Errorf("%w: every send of EFA completes: set SendSignaled, or SignalAll of the QP", verbs.ErrInvalidWR)
	case q.ctx.form(q.typ, wr.Opcode).head == 0:
		return fmt.Errorf("%w: %v on a %v QP of this EFA device", verbs.ErrNotSupported, wr.Opcode, q.typ)
	case to == nil:
		return fmt.Errorf("%w: no AH, or a closed one", verbs.ErrInvalidWR)
	case to.pd != q.pd:
		return fmt.Errorf("%w: the AH is of another PD than the QP", verbs.ErrInvalidWR)
	}
	return fmt.Errorf("%w: RemoteQPN %#x, but EFA's numbers have 16 bits", verbs.ErrInvalidWR, wr.RemoteQPN)
}

// refuseSGL returns the error of SGEs that encode does not accept.
func (q *qp) refuseSGL(wr *verbs.SendWR, sgl []verbs.SGE) error {
	if _, err := driver.SumSGL(sgl, q.sq.maxSGE); err != nil {
		return err
	}
	if q.ctx.form(q.typ, wr.Opcode).remote && len(sgl) != 1 {
		return fmt.Errorf("%w: %v takes exactly one SGE on EFA", verbs.ErrInvalidWR, wr.Opcode)
	}
	for i := range sgl {
		if key := sgl[i].LKey; key > keyMask {
			return errKey(key)
		}
	}
	return errChanged
}

// putInline fills in the data of a request, and the remote memory.
func (q *qp) putInline(e *wqe, f *form, wr *verbs.SendWR, data []byte) error {
	at := dataOffset
	switch {
	case len(wr.SGL) > 0:
		return fmt.Errorf("%w: both SGL and Inline are set", verbs.ErrInvalidWR)
	case f.code == opRead:
		return fmt.Errorf("%w: %v takes no Inline data", verbs.ErrInvalidWR, wr.Opcode)
	case f.remote && q.sq.size != longWQE:
		return fmt.Errorf("%w: %v takes Inline data only on QPs that were created with MaxInline above %d", verbs.ErrNotSupported, wr.Opcode, shortInline)
	case len(data) > q.sq.maxInline:
		return fmt.Errorf("%w: %d bytes inline, but the QP takes at most %d (send more from registered memory, with SGL)",
			verbs.ErrInvalidWR, len(data), q.sq.maxInline)
	case f.remote:
		putRemote(e, wr, uint32(len(data)))
		at += 16
	}
	e[0] |= wqeInline | uint64(len(data))<<wqeLenShift
	copy(abi.Bytes(e)[at:], data)
	return nil
}

// putRemote fills in the remote memory.
func putRemote(e *wqe, wr *verbs.SendWR, length uint32) {
	e[dataWord], e[dataWord+1] = uint64(length)|uint64(wr.RKey)<<32, wr.RemoteAddr
}

// errChanged is the error of a request that another goroutine made valid while it was refused.
var errChanged = fmt.Errorf("%w: it changed while it was posted", verbs.ErrInvalidWR)

func errKey(key uint32) error {
	return fmt.Errorf("%w: LKey %#x, but EFA's keys have 24 bits", verbs.ErrInvalidWR, key)
}
