package uverbs

import (
	"errors"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// MW is a memory window: a key for part of a region, bound and ended by work
// requests and so in order with the traffic.
//
// C: struct ibv_mw
type MW struct {
	object
	pd     *PD
	typ    verbs.MWType
	handle uint32
	rkey   atomic.Uint32
	memory *memory

	// Guarded by the graph's lock, of type 2 where the provider tells.
	holds *object // the QP that can't be closed before
	bound bool    // as far as is known
}

// AllocMW makes a memory window that is bound to nothing.
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
	mw.setNumber(mw.handle)
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

// Type tells who chooses the window's key.
func (mw *MW) Type() verbs.MWType {
	if mw == nil { // as a work request may have it
		return 0
	}
	return mw.typ
}

// RKey is the window's key: as the kernel first made it, then as the binding
// posted last makes it.
func (mw *MW) RKey() uint32 {
	if mw == nil {
		return 0
	}
	return mw.rkey.Load()
}

// SetRKey says which key the window has. It is needed before a window is bound again
// after a binding that failed: RKey is that binding's, but the window has kept the
// key from before.
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
		return "windows are of type 1 or 2"
	}
	return createHint(err)
}
