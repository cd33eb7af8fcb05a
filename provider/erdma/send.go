package erdma

import (
	"fmt"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// PostSend queues sends and rings the doorbell once.
func (q *qp) PostSend(wrs []verbs.SendWR) (n int, err error) {
	if q.state < verbs.QPStateRTS {
		return 0, fmt.Errorf("%w: the QP is in %v; sends can be posted from RTS on", syscall.EINVAL, q.state)
	}
	pi := q.sq.produced.Load()
	room := q.sq.room(pi)
	for n < len(wrs) {
		var blocks uint32
		if blocks, err = q.send(pi, room, &wrs[n]); err != nil {
			break
		}
		pi += blocks
		room -= blocks
		n++
	}
	switch {
	case n == 0:
	case q.failed:
		if err == nil {
			err = driver.ErrQPFailing
		}
	default:
		q.sq.publish(pi)
		q.ring(pi)
	}
	return n, err
}

// ring updates the doorbell record, then rings the doorbell for the sends before pi.
func (q *qp) ring(pi uint32) {
	v := uint64(q.num)<<hdrQPNShift | uint64(uint16(pi))
	mmap.StoreRelease64(q.record.word[0], v)
	q.ctx.sdb.Store64(q.sdb, v)
}

// send fills blocks beginning at pi, if there is room, and returns their number.
func (q *qp) send(pi, room uint32, wr *verbs.SendWR) (blocks uint32, err error) {
	r := request{wr: wr, op: lookUp(wr.Opcode), flags: wr.Flags, sgl: wr.SGL, inline: wr.Inline}
	if err := q.check(&r); err != nil {
		return 0, err
	}
	if q.failed {
		q.flushed.Send = append(q.flushed.Send, q.flush(wr.WRID, wcOpcodes[r.op.code]))
		return 0, nil
	}
	blocks = r.blocks()
	if blocks > room {
		return 0, verbs.ErrQueueFull
	}
	q.sq.note(pi, wr.WRID, blocks)
	q.fill(pi, &r)
	// The header is written last. The device reads it after the doorbell at the earliest.
	q.sq.blocks.At(pi)[0] = q.flags | r.header() | uint64(blocks-1)<<hdrBlocksShift | uint64(uint16(pi+blocks))
	return blocks, nil
}

// opcode is the device's number of a send's opcode, and the layout of its entry.
type opcode struct {
	code   uint8
	layout layout
}

type layout uint8

const (
	unknown     layout = iota
	sendLayout         // SGEs or data from the middle of the first block on
	writeLayout        // SGEs or data from the second block on
	readLayout
	atomicLayout
	invLayout
)

var opcodes = [...]opcode{
	verbs.OpRDMAWrite:    {opWrite, writeLayout},
	verbs.OpRDMAWriteImm: {opWriteImm, writeLayout},
	verbs.OpSend:         {opSend, sendLayout},
	verbs.OpSendImm:      {opSendImm, sendLayout},
	verbs.OpSendWithInv:  {opSendInv, sendLayout},
	verbs.OpRDMARead:     {opRead, readLayout},
	verbs.OpReadWithInv:  {opReadInv, readLayout},
	verbs.OpCompareSwap:  {opCompareSwap, atomicLayout},
	verbs.OpFetchAdd:     {opFetchAdd, atomicLayout},
	verbs.OpLocalInv:     {opLocalInv, invLayout},
}

func lookUp(op verbs.Opcode) opcode {
	if int64(op) < int64(len(opcodes)) {
		return opcodes[op]
	}
	return opcode{}
}

// Supports implements driver.Supporter.
func (c *erdmaContext) Supports(t verbs.QPType, op verbs.Opcode) bool {
	l := lookUp(op).layout
	return t == verbs.QPTypeRC && l != unknown && (l != atomicLayout || c.atomics)
}

// request is a send. Its slices were read once, so that the slice that is checked is used.
type request struct {
	wr     *verbs.SendWR
	op     opcode
	flags  verbs.SendFlags
	sgl    []verbs.SGE
	inline []byte
	length uint32 // bytes in all
}

const allFlags = verbs.SendFence | verbs.SendSignaled | verbs.SendSolicited

// check returns an error for a request that would end the connection, or that C's provider
// refuses.
func (q *qp) check(r *request) error {
	length, err := driver.SumSGL(r.sgl, q.maxSGE)
	switch l := r.op.layout; {
	case l == unknown, l == atomicLayout && !q.ctx.atomics:
		return fmt.Errorf("%w: this erdma device does not support %v", verbs.ErrNotSupported, r.wr.Opcode)
	case err != nil:
		return err
	case r.flags&^allFlags != 0:
		return fmt.Errorf("%w: unknown flags %#x", verbs.ErrInvalidWR, uint32(r.flags&^allFlags))
	case length > math.MaxUint32:
		return fmt.Errorf("%w: %d bytes in all, but a message has at most %d", verbs.ErrInvalidWR, length, uint32(math.MaxUint32))
	case l == sendLayout || l == writeLayout:
		if r.inline != nil {
			length, err = uint64(len(r.inline)), r.checkInline()
		}
	case r.inline != nil:
		err = fmt.Errorf("%w: %v takes no Inline data", verbs.ErrInvalidWR, r.wr.Opcode)
	case l == invLayout && len(r.sgl) > 0:
		err = fmt.Errorf("%w: %v takes no SGL", verbs.ErrInvalidWR, r.wr.Opcode)
	case l == readLayout && len(r.sgl) != 1:
		err = fmt.Errorf("%w: %v takes exactly one SGE on erdma", verbs.ErrInvalidWR, r.wr.Opcode)
	case l == atomicLayout && (len(r.sgl) != 1 || length != 8):
		err = fmt.Errorf("%w: the result of %v takes one SGE of 8 bytes", verbs.ErrInvalidWR, r.wr.Opcode)
	}
	r.length = uint32(length)
	return err
}

func (r *request) checkInline() error {
	switch {
	case len(r.sgl) > 0:
		return fmt.Errorf("%w: both SGL and Inline are set", verbs.ErrInvalidWR)
	case len(r.inline) > maxInline:
		return fmt.Errorf("%w: %d bytes inline, but erdma takes at most %d (send more from registered memory, with SGL)",
			verbs.ErrInvalidWR, len(r.inline), maxInline)
	}
	return nil
}

// blocks returns the number of blocks that the request takes.
func (r *request) blocks() uint32 {
	var tail int // bytes of the fixed part and of those after it; sends have half a block fixed, others one
	switch r.op.layout {
	case readLayout, atomicLayout:
		return 2
	case invLayout:
		return 1
	case sendLayout:
		tail = blockSize / 2
	default:
		tail = blockSize
	}
	return uint32(tail+len(r.sgl)*sgeSize+len(r.inline)+blockSize-1) / blockSize
}

// header returns the first word, without the fields that depend on the queue.
func (r *request) header() uint64 {
	h := uint64(r.op.code)<<hdrOpShift |
		uint64(r.flags&verbs.SendSignaled)*(hdrSignaled/uint64(verbs.SendSignaled)) |
		uint64(r.flags&verbs.SendSolicited)*(hdrSolicited/uint64(verbs.SendSolicited)) |
		uint64(r.flags&verbs.SendFence)*(hdrFence/uint64(verbs.SendFence))
	switch {
	case r.op.layout > writeLayout:
		return h
	case r.inline != nil:
		return h | hdrInline | uint64(len(r.inline))<<hdrCountShift
	}
	return h | uint64(len(r.sgl))<<hdrCountShift
}

// fill writes all but the header of a request whose blocks begin at pi. Fields that an
// operation does not use keep the values of an earlier one.
func (q *qp) fill(pi uint32, r *request) {
	e, wr := q.sq.blocks.At(pi), r.wr
	e[1] = uint64(r.key()) | uint64(r.length)<<32
	switch r.op.layout {
	case sendLayout:
		q.putData(pi, 2, r)
	case writeLayout:
		e[2], e[3] = uint64(wr.RKey)|wr.RemoteAddr<<32, wr.RemoteAddr>>32
		q.putData(pi+1, 0, r)
	case readLayout:
		local, remote := &r.sgl[0], q.sq.blocks.At(pi+1)
		e[2], e[3] = uint64(local.LKey)|local.Addr<<32, local.Addr>>32
		remote[0], remote[1] = wr.RemoteAddr, uint64(r.length)|uint64(wr.RKey)<<32
	case atomicLayout:
		q.putAtomic(pi, r)
	case invLayout:
		*e = block{2: uint64(wr.InvalidateRKey) << 32}
	}
}

// key returns the lower half of the second word: immediate data, most significant byte
// first, or the key to invalidate. A READ_WITH_INV invalidates the key of its own buffer.
func (r *request) key() uint32 {
	switch r.op.code {
	case opSendImm, opWriteImm:
		return be32(r.wr.Imm)
	case opSendInv:
		return r.wr.InvalidateRKey
	case opReadInv:
		return r.sgl[0].LKey
	}
	return 0
}

func (q *qp) putAtomic(pi uint32, r *request) {
	e, more, wr := q.sq.blocks.At(pi), q.sq.blocks.At(pi+1), r.wr
	if e[1] = 0; r.op.code == opCompareSwap {
		e[2], e[3] = wr.Swap, wr.CompareAdd
	} else {
		e[2], e[3] = wr.CompareAdd, 0
	}
	more[0], more[1] = wr.RemoteAddr, uint64(wr.RKey)<<32
	more[2], more[3] = sgeWords(&r.sgl[0])
}

// putData writes SGEs or inline data, beginning at a word of a block. If an SGE at the
// start of a block is the last one, the QPN is at the block's end, as in C.
func (q *qp) putData(at uint32, word int, r *request) {
	if r.inline != nil {
		q.putInline(at, 8*word, r.inline)
		return
	}
	for i := range r.sgl {
		b := q.sq.blocks.At(at)
		b[word], b[word+1] = sgeWords(&r.sgl[i])
		if word == 0 {
			b[3] = uint64(uint32(b[3])) | uint64(q.num)<<32
			word = 2
			continue
		}
		at, word = at+1, 0
	}
}

// putInline copies data, which may wrap around the end of the queue.
func (q *qp) putInline(at uint32, offset int, data []byte) {
	for len(data) > 0 {
		n := copy(abi.Bytes(q.sq.blocks.At(at))[offset:], data)
		data, at, offset = data[n:], at+1, 0
	}
}
