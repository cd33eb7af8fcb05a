package rxe

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

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
		err = fmt.Errorf("%w: the result of %v takes %d bytes, SGL names %d", verbs.ErrInvalidWR, r.op, atomicSize, r.length)
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
		return 0, fmt.Errorf("%w: %v takes no Inline", verbs.ErrInvalidWR, op)
	case len(sgl) > 0 && inline != nil:
		return 0, fmt.Errorf("%w: both SGL and Inline are set", verbs.ErrInvalidWR)
	case op != verbs.OpAtomicWrite && len(inline) > q.maxInline:
		return 0, fmt.Errorf("%w: %d bytes inline, the QP takes %d (QPOptions.Cap.MaxInline asks for more; rdmacm has it as Config.QP.Cap.MaxInline)",
			verbs.ErrInvalidWR, len(inline), q.maxInline)
	}
	return uint32(len(inline)), nil
}
