package uverbs

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// MW is a memory window, a key for part of a memory region. Work requests bind and invalidate
// it, so both happen in order with the traffic.
//
// C: struct ibv_mw
type MW struct {
	object
	pd     *PD
	typ    verbs.MWType
	handle uint32
	rkey   atomic.Uint32
	memory *memory

	// Guarded by the graph's lock. They are set for windows of type 2 only, and only if the
	// provider reports bindings.
	holds *object // the QP that must be closed after the window
	bound bool    // as far as this process knows
}

// AllocMW creates an unbound memory window.
//
// C: ibv_alloc_mw
func (pd *PD) AllocMW(typ verbs.MWType) (*MW, error) {
	mw := &MW{pd: pd, typ: typ}
	if err := mw.attach("MW", &pd.object); err != nil {
		return nil, err
	}
	if err := mw.create(); err != nil {
		mw.detach()
		return nil, mw.fail("create", err, mwHint(err, typ))
	}
	mw.enlist()
	mw.created(mw, mw.handle)
	return mw, nil
}

func (mw *MW) create() (err error) {
	c := mw.pd.dev.creation(mw.issueCreate)
	mw.memory = c.memory
	if p, ok := mw.pd.dev.provider.(driver.MWAllocator); ok {
		err = p.AllocMW(&driver.AllocMW{Call: c, Type: mw.typ})
	} else {
		err = c.Do(driver.UHW{})
	}
	return c.made(err, mw.issueDestroy)
}

func (mw *MW) issueCreate(u driver.UHW, extra []driver.Attr) error {
	var resp abi.IbUverbsAllocMwResp
	in := &abi.IbUverbsAllocMw{PdHandle: mw.pd.handle, MwType: uint8(mw.typ)}
	r := writeCommand(mw.pd.dev, abi.IB_USER_VERBS_CMD_ALLOC_MW, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := mw.pd.dev.doWith(r, u, extra); err != nil {
		return err
	}
	mw.handle = resp.MwHandle
	mw.rkey.Store(resp.Rkey)
	return nil
}

// PD returns the protection domain of the window.
func (mw *MW) PD() *PD { return mw.pd }

// Type returns the window's type.
func (mw *MW) Type() verbs.MWType {
	if mw == nil { // a work request may name a nil window
		return 0
	}
	return mw.typ
}

// RKey returns the window's key, which is that of the last binding posted, or the kernel's
// initial key.
func (mw *MW) RKey() uint32 {
	if mw == nil {
		return 0
	}
	return mw.rkey.Load()
}

// SetRKey sets the window's key. Call it after a binding has failed, before the next one: RKey
// returns the failed binding's key, but the window still has the key from before.
func (mw *MW) SetRKey(rkey uint32) { mw.rkey.Store(rkey) }

// Close frees the window. A peer that still uses its key gets an error.
//
// C: ibv_dealloc_mw
func (mw *MW) Close() error {
	if mw == nil {
		return closeNil("MW")
	}
	return mw.close(mw.issueDestroy, mw.delist)
}

func (mw *MW) issueDestroy() error {
	r := mw.pd.dev.request(abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_MW_HANDLE, mw.handle)
	return r.Do(mw.pd.dev.file)
}

func mwHint(err error, typ verbs.MWType) string {
	if errors.Is(err, syscall.EINVAL) && typ != verbs.MWType1 && typ != verbs.MWType2 {
		return "a window has type 1 or 2"
	}
	return createHint(err)
}

// IncRKey returns the key that follows key: the next tag in the low byte, the
// same index above.
//
// C: ibv_inc_rkey
func IncRKey(key uint32) uint32 { return key&^0xff | (key+1)&0xff }

// Bind posts the binding of a type 1 window to qp. The key changes at once. The peer may use
// the new key when the work request has completed. Bind fills in b.MW and b.RKey.
//
// C: ibv_bind_mw
func (mw *MW) Bind(qp *QP, wrID uint64, flags verbs.SendFlags, b verbs.BindMW) error {
	if mw.typ != verbs.MWType1 {
		return mw.fail("bind", syscall.EINVAL, fmt.Sprintf("it is a window of %v: post OpBindMW", mw.typ))
	}
	return mw.alone("bind", func() error {
		b.MW, b.RKey = mw, IncRKey(mw.RKey())
		_, err := qp.PostSend([]verbs.SendWR{{WRID: wrID, Opcode: verbs.OpBindMW, Flags: flags, Bind: &b}})
		return err
	})
}

// bind implements driver.CreateQP.Bind. It records that a binding is about to be queued, and
// sets the window's key to b's. The caller holds the send queue, and must not queue the binding
// if bind fails.
//
// With hold, QP.Close fails until the window is closed or is bound through another QP, because
// some drivers can't destroy a QP through which a window is bound. bind does not track the
// end of such a binding: the QP stays held.
//
// rxe's kernel driver needs this: if the QP is destroyed first, it waits 50 seconds for the
// window. It also follows a null pointer if an unbound window is invalidated; see unbind.
func (qp *QP) bind(b *verbs.BindMW, hold bool) error {
	mw, known := b.MW.(*MW)
	mr, isMR := b.MR.(*MR)
	switch {
	case known && mw == nil:
		return fmt.Errorf("%w: no window to bind", verbs.ErrInvalidWR)
	case !known || b.MR != nil && !isMR:
		return fmt.Errorf("%w: the window or its MR is not of package uverbs", verbs.ErrInvalidWR)
	case mw.pd != qp.pd || mr != nil && mr.pd != qp.pd:
		return fmt.Errorf("%w: the window, its MR and the QP must have the same PD", verbs.ErrInvalidWR)
	case (b.RKey^mw.RKey())>>8 != 0: // a device may ignore the upper bytes
		return fmt.Errorf("%w: %#x is not a key of the window: the current key is %#x, and IncRKey returns the next", verbs.ErrInvalidWR, b.RKey, mw.RKey())
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
	mw.addParentLocked(qp)
	mw.holds = qp
	return nil
}

// unbind implements driver.Device.Unbind.
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

// enlist adds the window to the device's table, by the part of its key that never changes.
func (mw *MW) enlist() {
	d := mw.pd.dev
	d.graph.Lock()
	defer d.graph.Unlock()
	if d.windows == nil {
		d.windows = make(map[uint32]*MW)
	}
	d.windows[mw.RKey()>>8] = mw
}

// delist removes the window from the device's table, unless another window has its key already,
// and frees its memory.
func (mw *MW) delist() error {
	d := mw.pd.dev
	d.graph.Lock()
	defer d.graph.Unlock()
	if index := mw.RKey() >> 8; d.windows[index] == mw {
		delete(d.windows, index)
	}
	return mw.memory.free()
}
