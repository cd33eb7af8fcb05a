package mlx5

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// request is a send. Its slices were read once, so that the slice that is checked is used.
type request struct {
	wr     *verbs.SendWR
	op     operation
	flags  verbs.SendFlags
	sgl    []verbs.SGE
	inline []byte
	ah     *ah
	front  []byte // start of a frame, which precedes the rest
}

const (
	allFlags   = verbs.SendFence | verbs.SendSignaled | verbs.SendSolicited
	rawFlags   = allFlags | verbs.SendIPCsum
	atomicSize = 8
)

// check returns an error for a request that would fail the QP, or that the device would
// misread.
func (q *qp) check(r *request) error {
	wr := r.wr
	if r.op.form == formNone {
		return fmt.Errorf("%w: %v QPs of this mlx5 device have no %v", verbs.ErrNotSupported, q.typ, wr.Opcode)
	}
	known := allFlags
	if q.typ == verbs.QPTypeRawPacket {
		known = rawFlags
	}
	if r.flags&^known != 0 {
		return fmt.Errorf("%w: unknown flags %#x", verbs.ErrInvalidWR, uint32(r.flags&^known))
	}
	if err := q.checkData(r); err != nil {
		return err
	}
	switch q.typ {
	case verbs.QPTypeUD:
		return r.findAH()
	case verbs.QPTypeRawPacket:
		return q.checkFrame(r)
	}
	if r.op.form == formKeys {
		return q.checkKeys(r)
	}
	return nil
}

func (q *qp) checkData(r *request) error {
	length, err := driver.SumSGL(r.sgl, q.sq.maxSGE)
	op := r.wr.Opcode
	switch form := r.op.form; {
	case err != nil:
		return err
	case length > maxDataLength:
		return errTooLong(length)
	case form == formKeys && (len(r.sgl) > 0 || r.inline != nil):
		return fmt.Errorf("%w: %v takes no data", verbs.ErrInvalidWR, op)
	case form == formAtomic && (len(r.sgl) != 1 || length != atomicSize):
		return fmt.Errorf("%w: the result of %v takes one SGE of %d bytes", verbs.ErrInvalidWR, op, atomicSize)
	case r.inline == nil:
		return nil
	case form == formAtomic || op == verbs.OpRDMARead:
		return fmt.Errorf("%w: %v takes no Inline", verbs.ErrInvalidWR, op)
	case len(r.sgl) > 0:
		return fmt.Errorf("%w: both SGL and Inline are set", verbs.ErrInvalidWR)
	case uint64(len(r.inline)) > uint64(q.maxInline):
		return fmt.Errorf("%w: %d bytes inline, the QP takes %d (QPOptions.Cap.MaxInline asks for more; rdmacm has it as Config.QP.Cap.MaxInline)",
			verbs.ErrInvalidWR, len(r.inline), q.maxInline)
	}
	return nil
}

func errTooLong(length uint64) error {
	return fmt.Errorf("%w: %d bytes in all, a message has at most %d", verbs.ErrInvalidWR, length, uint32(maxDataLength))
}

func (r *request) findAH() error {
	if r.wr.AH == nil {
		return fmt.Errorf("%w: a datagram needs an AH", verbs.ErrInvalidWR)
	}
	to, ok := r.wr.AH.Data().(*ah)
	if !ok {
		return fmt.Errorf("%w: the AH is closed, or another provider's", verbs.ErrInvalidWR)
	}
	r.ah = to
	return nil
}

// binding is the change of a key that is about to be queued. Without a window, it
// invalidates a key.
type binding struct {
	verbs.BindMW
	oldKey uint32 // the window's key before the binding; or the key to invalidate
	type2  bool
}

// checkKeys checks and copies the binding, which the program might change meanwhile. One
// segment covers at most 2 GiB.
func (q *qp) checkKeys(r *request) error {
	if r.op.wc == verbs.WCLocalInv {
		q.binding = binding{oldKey: r.wr.InvalidateRKey, type2: true}
		return nil
	}
	if r.wr.Bind == nil || r.wr.Bind.MW == nil {
		return fmt.Errorf("%w: there is no window to bind", verbs.ErrInvalidWR)
	}
	q.binding = binding{BindMW: *r.wr.Bind}
	b := &q.binding
	b.oldKey, b.type2 = b.MW.RKey(), b.MW.Type() == verbs.MWType2
	switch {
	case b.MR == nil && b.Length > 0:
		return fmt.Errorf("%w: a window of %d bytes needs an MR", verbs.ErrInvalidWR, b.Length)
	case b.Length > maxDataLength:
		return fmt.Errorf("%w: a window of %d bytes, mlx5 binds at most %d", verbs.ErrNotSupported, b.Length, uint32(maxDataLength))
	}
	return nil
}
