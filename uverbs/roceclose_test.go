package uverbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRoCEHolders has address handles and windows keep their domain.
func TestRoCEHolders(t *testing.T) {
	w := newRoCE(t)
	closeAll(t, w.ud, w.qp, w.srq, w.mr)
	for _, c := range []struct {
		last   closer
		holder string
	}{{w.ah, "close AH 7, MW 6 first"}, {w.mw, "close MW 6 first"}} {
		if err := w.pd.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), c.holder) {
			t.Error(err)
		}
		if err := c.last.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := w.pd.Close(); err != nil {
		t.Error(err)
	}
}

func TestRoCEUseAfterClose(t *testing.T) {
	w := newRoCE(t)
	access := verbs.AccessLocalWrite
	reset := uverbs.ReregOptions{PD: w.pd, Access: &access}
	other := must[*uverbs.MR](t)(w.other.AllocMR(1, 0, nil))
	closeAll(t, w.ud, w.ah, w.mw)
	w.close(t)
	for name, err := range map[string]error{
		"CreateAH": failed(w.pd.CreateAH(address)), "AllocMW": failed(w.pd.AllocMW(verbs.MWType1)), "CQ.Resize": w.cq.Resize(9),
		"SRQ.Resize": w.srq.Resize(9), "AttachMcast": w.ud.AttachMcast(group, 0), "DetachMcast": w.ud.DetachMcast(group, 0),
		"Rereg": w.mr.Rereg(reset), "Rereg to": other.Rereg(reset), "AH": w.ah.Close(), "MW": w.mw.Close(),
	} {
		if !errors.Is(err, verbs.ErrClosed) || !strings.Contains(err.Error(), " on rxe0: ") {
			t.Errorf("%s after close: %v", name, err)
		}
	}
	if w.ah.Data() != nil {
		t.Error("a closed AH still has a number")
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseFails has the kernel keep an address handle: it goes on being one.
func TestCloseFails(t *testing.T) {
	w := connected(t)
	w.k.Fail("AH_DESTROY", 0, syscall.EBUSY)
	if err := w.ah.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	if _, err := w.ud.PostSend(w.datagram()); err != nil {
		t.Error(err)
	}
}

// TestClosedAH posts to where nobody may go any more.
func TestClosedAH(t *testing.T) {
	w := connected(t)
	if n, err := w.ud.PostSend(w.datagram()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, ok := fakerxe.QPOf(w.kud()).TakeSend(); !ok {
		t.Fatal("nothing was sent")
	}
	w.k.Tamper = func(call string, _ *ioctl.Request) {
		if w.ah.Data() != nil {
			t.Error("the number of a destroyed AH can still be posted")
		}
	}
	if err := w.ah.Close(); err != nil {
		t.Fatal(err)
	}
	w.k.Tamper = nil
	n, err := w.ud.PostSend(w.datagram())
	if _, ok := fakerxe.QPOf(w.kud()).TakeSend(); ok || n != 0 || !errors.Is(err, verbs.ErrInvalidWR) || !strings.Contains(err.Error(), "the AH is closed") {
		t.Errorf("%d sent, %v, %v", n, ok, err)
	}
}

// TestMcast attaches to two groups: the QP stays until the last is left.
func TestMcast(t *testing.T) {
	w := newRoCE(t)
	other := verbs.GID{0xff, 0x0e, 15: 2}
	for _, g := range []verbs.GID{group, other, group} { // the third changes nothing
		if err := w.ud.AttachMcast(g, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range []verbs.GID{group, other} {
		if err := w.ud.Close(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "DetachMcast") {
			t.Error(err)
		}
		if _, err := w.ud.PostRecv([]verbs.RecvWR{{}}); errors.Is(err, verbs.ErrClosed) {
			t.Errorf("a QP that could not be closed: %v", err)
		}
		if err := w.ud.DetachMcast(g, 0); err != nil {
			t.Error(err)
		}
		if err := w.ud.DetachMcast(g, 0); !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
	}
	if err := w.ud.Close(); err != nil {
		t.Error(err)
	}
}
