package erdma

import (
	"fmt"
	"math"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

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
		return fmt.Errorf("%w: this erdma device has no %v", verbs.ErrNotSupported, r.wr.Opcode)
	case err != nil:
		return err
	case r.flags&^allFlags != 0:
		return fmt.Errorf("%w: unknown flags %#x", verbs.ErrInvalidWR, uint32(r.flags&^allFlags))
	case length > math.MaxUint32:
		return fmt.Errorf("%w: %d bytes in all, a message has at most %d", verbs.ErrInvalidWR, length, uint32(math.MaxUint32))
	case l == sendLayout || l == writeLayout:
		if r.inline != nil {
			length, err = uint64(len(r.inline)), r.checkInline()
		}
	case r.inline != nil:
		err = fmt.Errorf("%w: %v takes no Inline", verbs.ErrInvalidWR, r.wr.Opcode)
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
		return fmt.Errorf("%w: %d bytes inline, erdma takes %d (send more from registered memory, with SGL)",
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
