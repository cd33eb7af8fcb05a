//go:build vm

package rxe

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// windows is a region that only windows open to peers, and a connection whose
// one end owns it.
type windows struct {
	*kit.RxeDevice
	mr          *uverbs.MR
	peer, owner *kit.RxeEnd
}

func newWindows(t *testing.T) *windows {
	t.Helper()
	w := &windows{RxeDevice: kit.OpenRxe(t)}
	w.mr = kit.Must(w.PD.AllocMR(3*4096, verbs.AccessLocalWrite|verbs.AccessMWBind, nil))(t)
	kit.CloseLater(t, w.mr)
	w.peer, w.owner = w.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	return w
}

func (w *windows) window(t *testing.T, typ verbs.MWType) *uverbs.MW {
	t.Helper()
	mw := kit.Must(w.PD.AllocMW(typ))(t)
	kit.CloseLater(t, mw)
	return mw
}

// middle is a binding to the second of the region's three pages.
func (w *windows) middle(access verbs.Access) verbs.BindMW {
	return verbs.BindMW{MR: w.mr, Addr: w.mr.Addr() + 4096, Length: 4096, Access: access}
}

// bind binds a window of either type, and returns its key.
func (w *windows) bind(mw *uverbs.MW, b verbs.BindMW) uint32 {
	w.T.Helper()
	if mw.Type() == verbs.MWType1 {
		if err := mw.Bind(w.owner.QP, 5, verbs.SendSignaled, b); err != nil {
			w.T.Fatal(err)
		}
	} else {
		b.MW, b.RKey = mw, uverbs.IncRKey(mw.RKey())
		w.owner.Post(verbs.SendWR{WRID: 5, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: &b})
	}
	w.owner.Sent("5 BIND_MW success")
	return mw.RKey()
}

// ends returns how a new peer's write or read through a window ends.
func (w *windows) ends(t *testing.T, want verbs.Status, op verbs.Opcode, key uint32, offset int) {
	t.Helper()
	if got := attemptFromNewPeer(w.RxeDevice, t, op, w.mr.Addr()+uint64(offset), key); got != want {
		t.Errorf("%v at %d ends with %v, want %v", op, offset, got, want)
	}
}

const (
	write = verbs.OpRDMAWrite
	read  = verbs.OpRDMARead
)

// TestRxeWindow1 checks the memory that a window of type 1 opens, to peers of any QP of its PD, and
// the calls that close it. rxe ignores that the window is smaller than the region.
func TestRxeWindow1(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	w := newWindows(t)
	mw := w.window(t, verbs.MWType1)
	unbound := mw.RKey()
	w.ends(t, denied, write, unbound, 4096)
	w.ends(t, denied, write, w.mr.RKey(), 4096)

	wide := w.bind(mw, w.middle(verbs.AccessRemoteWrite|verbs.AccessRemoteRead))
	if wide != uverbs.IncRKey(unbound) {
		t.Errorf("key %#x after %#x", wide, unbound)
	}
	w.ends(t, allowed, write, wide, 4096)
	w.ends(t, allowed, read, wide, 2*4096-8)
	w.ends(t, allowed, write, wide, 0) // before the window
	w.ends(t, allowed, write, wide, 2*4096)
	w.ends(t, denied, write, wide, 3*4096) // behind the region
	w.ends(t, denied, verbs.OpFetchAdd, wide, 4096)

	writes := w.bind(mw, w.middle(verbs.AccessRemoteWrite))
	w.ends(t, denied, write, wide, 4096) // the key before
	w.ends(t, allowed, write, writes, 4096)
	w.ends(t, denied, read, writes, 4096)

	reads := w.bind(mw, w.middle(verbs.AccessRemoteRead))
	w.ends(t, allowed, read, reads, 4096)
	w.ends(t, denied, write, reads, 4096)

	ended := w.bind(mw, verbs.BindMW{})
	w.ends(t, denied, read, reads, 4096)
	w.ends(t, denied, read, ended, 4096)
	w.ends(t, allowed, read, w.bind(mw, w.middle(verbs.AccessRemoteRead)), 4096)
}

// TestRxeWindow2 checks that a window of type 2 opens to the peer of one QP, under the key that the owner chose, until
// either side ends it.
func TestRxeWindow2(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	const both = verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	for name, end := range map[string]func(*windows, uint32){
		"locally": func(w *windows, key uint32) {
			w.owner.Post(verbs.SendWR{WRID: 6, Opcode: verbs.OpLocalInv, Flags: verbs.SendSignaled, InvalidateRKey: key})
			w.owner.Sent("6 LOCAL_INV success")
		},
		"by the peer": func(w *windows, key uint32) {
			w.owner.PostRecv(7, 0, 8)
			w.peer.Post(verbs.SendWR{WRID: 7, Opcode: verbs.OpSendWithInv, Flags: verbs.SendSignaled, InvalidateRKey: key})
			w.peer.Sent("7 SEND success")
			if wc := w.owner.Got("7 RECV success 0"); wc.Flags&verbs.WCWithInv == 0 || wc.InvalidatedRKey() != key {
				w.T.Errorf("%+v", wc)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.NoLeak(t)
			w := newWindows(t)
			mw := w.window(t, verbs.MWType2)
			old := uint32(0)
			for range 3 {
				key := w.bind(mw, w.middle(both))
				for _, op := range []verbs.Opcode{write, read} {
					if got := attempt(w.peer, op, w.mr.Addr()+4096, key); got != allowed {
						t.Errorf("%v: %v", op, got)
					}
				}
				w.ends(t, denied, write, key, 4096) // of another QP
				if old != 0 && key != uverbs.IncRKey(old) {
					t.Errorf("key %#x after %#x", key, old)
				}
				end(w, key)
				again := []verbs.SendWR{{Opcode: verbs.OpLocalInv, InvalidateRKey: key}}
				if n, err := w.owner.QP.PostSend(again); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) { // it would be the end of the kernel
					t.Errorf("ended again: %d, %v", n, err)
				}
				old = key
			}
			if got := attempt(w.peer, write, w.mr.Addr()+4096, old); got != denied {
				t.Errorf("after its end: %v", got)
			}
		})
	}
	t.Run("rights", func(t *testing.T) {
		kit.NoLeak(t)
		w := newWindows(t)
		key := w.bind(w.window(t, verbs.MWType2), w.middle(verbs.AccessRemoteRead))
		if got := attempt(w.peer, read, w.mr.Addr()+4096, key); got != allowed {
			t.Error(got)
		}
		if got := attempt(w.peer, write, w.mr.Addr()+4096, key); got != denied {
			t.Error(got)
		}
	})
}

// TestRxeWindowClosed checks that a window that is freed while it is bound is shut, and holds its region until then.
func TestRxeWindowClosed(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	for _, typ := range []verbs.MWType{verbs.MWType1, verbs.MWType2} {
		t.Run(fmt.Sprint(typ), func(t *testing.T) {
			w := newWindows(t)
			mr := kit.Must(w.PD.AllocMR(3*4096, verbs.AccessLocalWrite|verbs.AccessMWBind, nil))(t)
			b := w.middle(verbs.AccessRemoteWrite)
			b.MR, b.Addr = mr, mr.Addr()
			mw := kit.Must(w.PD.AllocMW(typ))(t)
			key := w.bind(mw, b)
			if got := attempt(w.peer, write, mr.Addr(), key); got != allowed {
				t.Error(got)
			}
			if err := mr.Close(); !errors.Is(err, syscall.EINVAL) || !strings.HasSuffix(err.Error(), "a memory window is bound to it: invalidate or close the window first") {
				t.Errorf("%v", err)
			}
			if got := attempt(w.peer, write, mr.Addr(), key); got != allowed {
				t.Error(got)
			}
			if err := mw.Close(); err != nil {
				t.Error(err)
			}
			if err := mw.Close(); !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
			if got := attempt(w.peer, write, mr.Addr(), key); got != denied {
				t.Error(got)
			}
			if err := mr.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRxeWindowHoldsQP checks that a QP with a bound window is in use. The kernel would wait 50
// seconds for the window, and then free the QP all the same.
func TestRxeWindowHoldsQP(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	w := newWindows(t)
	mw := kit.Must(w.PD.AllocMW(verbs.MWType2))(t)
	w.bind(mw, w.middle(verbs.AccessRemoteRead))
	if err := w.owner.QP.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.HasSuffix(kit.Number.ReplaceAllString(err.Error(), "$1"), ": in use: close MW first") {
		t.Errorf("%v", err)
	}
	if err := mw.Close(); err != nil {
		t.Error(err)
	}
}

// TestRxeWindowRefused checks which windows and which bindings are refused.
func TestRxeWindowRefused(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	w := newWindows(t)
	for _, typ := range []verbs.MWType{0, 3, 255} {
		if _, err := w.PD.AllocMW(typ); !errors.Is(err, syscall.EINVAL) || !strings.HasSuffix(err.Error(), "a window has type 1 or 2") {
			t.Errorf("%v: %v", typ, err)
		}
	}
	one, two := w.window(t, verbs.MWType1), w.window(t, verbs.MWType2)
	if err := two.Bind(w.owner.QP, 1, 0, w.middle(0)); !errors.Is(err, syscall.EINVAL) || !strings.HasSuffix(err.Error(), "it is a window of type 2: post OpBindMW") {
		t.Error(err)
	}
	other := kit.Must(w.AllocPD())(t)
	kit.CloseLater(t, other)
	foreign := kit.Must(other.AllocMW(verbs.MWType1))(t)
	kit.CloseLater(t, foreign)
	strange := kit.Must(other.AllocMR(1, verbs.AccessMWBind, nil))(t)
	kit.CloseLater(t, strange)
	for b, want := range map[*verbs.BindMW]string{
		nil:                    "no window to bind",
		{}:                     "no window to bind",
		{MW: two, Length: 8}:   "a window of 8 bytes needs an MR",
		{MW: foreign}:          "the window, its MR and the QP must have the same PD",
		{MW: one, MR: strange}: "the window, its MR and the QP must have the same PD",
	} {
		n, err := w.owner.QP.PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Bind: b}})
		if n != 0 || !errors.Is(err, verbs.ErrInvalidWR) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d, %v, want %s", n, err, want)
		}
	}
	closed := kit.Must(w.PD.AllocMR(4096, verbs.AccessLocalWrite, nil))(t)
	kit.CloseLater(t, closed)
	fixed := kit.Must(w.PD.AllocMR(4096, verbs.AccessMWBind, nil))(t)
	kit.CloseLater(t, fixed)
	outside := w.middle(verbs.AccessRemoteRead)
	outside.Length = 3 * 4096
	bindFails := verbs.StatusWRFlushErr // for everything local that fails
	if kit.OnKernel("6.1") {
		bindFails = verbs.StatusMWBindErr
	}
	for name, c := range map[string]struct {
		mw *uverbs.MW
		b  verbs.BindMW
	}{
		"region without MWBind":   {one, verbs.BindMW{MR: closed, Addr: closed.Addr(), Length: 8, Access: verbs.AccessRemoteRead}},
		"writable, region is not": {one, verbs.BindMW{MR: fixed, Addr: fixed.Addr(), Length: 8, Access: verbs.AccessRemoteWrite}},
		"past the end":            {one, outside},
		"past the end, type 2":    {two, outside},
		"zero-based type 1":       {one, w.middle(verbs.AccessRemoteRead | verbs.AccessZeroBased)},
		"type 2 to nothing":       {two, verbs.BindMW{}},
	} {
		key := c.mw.RKey()
		_, e := w.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
		c.b.MW, c.b.RKey = c.mw, uverbs.IncRKey(key)
		e.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: &c.b})
		wc := e.Next(e.SendCQ)
		if wc.Status != bindFails || kit.Must(e.QP.Query())(t).State != verbs.QPStateErr {
			t.Errorf("%s: %+v", name, wc)
		}
		c.mw.SetRKey(key) // as the kernel has it
	}
	// They are none the worse for it.
	w.ends(t, allowed, read, w.bind(one, w.middle(verbs.AccessRemoteRead)), 4096)
	key := w.bind(two, w.middle(verbs.AccessRemoteRead))
	if got := attempt(w.peer, read, w.mr.Addr()+4096, key); got != allowed {
		t.Error(got)
	}
}
