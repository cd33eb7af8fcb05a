package uverbs

import (
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// bind is driver.CreateQP.Bind. It notes that a binding is about to be queued; from
// then on the window has b's key. Call it with the send queue held; an error forbids
// the binding.
//
// With hold, QP.Close refuses until the window is closed, or bound through another
// QP. Some drivers can't destroy a QP through which a window is bound. The
// end of such a binding is not tracked: the QP stays held.
func (qp *QP) bind(b *verbs.BindMW, hold bool) error {
	mw, known := b.MW.(*MW)
	mr, isMR := b.MR.(*MR)
	switch {
	case known && mw == nil:
		return fmt.Errorf("%w: there is no window to bind", verbs.ErrInvalidWR)
	case !known || b.MR != nil && !isMR:
		return fmt.Errorf("%w: the window or its MR is not of package uverbs", verbs.ErrInvalidWR)
	case mw.pd != qp.pd || mr != nil && mr.pd != qp.pd:
		return fmt.Errorf("%w: the window, its MR and the QP must be of one PD", verbs.ErrInvalidWR)
	case (b.RKey^mw.RKey())>>8 != 0: // a device may take the low byte and leave the rest
		return fmt.Errorf("%w: %#x is no key of the window, which has %#x: IncRKey makes the next", verbs.ErrInvalidWR, b.RKey, mw.RKey())
	}
	if hold {
		if err := mw.holdQP(&qp.object); err != nil {
			return err
		}
	}
	mw.rkey.Store(b.RKey)
	return nil
}

func (mw *MW) holdQP(qp *object) error {
	qp.graph.Lock()
	defer qp.graph.Unlock()
	for _, n := range []*object{qp, &mw.object} {
		if n.stage != stageOpen {
			return n.fail("bind", verbs.ErrClosed, "")
		}
	}
	mw.bound = true
	if mw.holds == qp {
		return nil
	}
	if mw.holds != nil {
		mw.leaveLocked(mw.holds)
	}
	mw.lean(qp)
	mw.holds = qp
	return nil
}

// unbind is driver.Device.Unbind.
func (d *Device) unbind(rkey uint32) bool {
	d.graph.Lock()
	defer d.graph.Unlock()
	mw := d.windows[rkey>>8]
	if mw == nil || !mw.bound || mw.RKey() != rkey {
		return false
	}
	mw.bound = false
	return true
}

// enlist makes the window known by the part of its key that never changes.
func (mw *MW) enlist() {
	d := mw.pd.dev
	d.graph.Lock()
	defer d.graph.Unlock()
	if d.windows == nil {
		d.windows = make(map[uint32]*MW)
	}
	d.windows[mw.RKey()>>8] = mw
}

// delist goes by identity: a key that was freed may be another window's.
func (mw *MW) delist() error {
	d := mw.pd.dev
	d.graph.Lock()
	defer d.graph.Unlock()
	if index := mw.RKey() >> 8; d.windows[index] == mw {
		delete(d.windows, index)
	}
	return mw.memory.free()
}
