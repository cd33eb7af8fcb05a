package rxe

import (
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
)

func bindOn(qp *uverbs.QP, mw *uverbs.MW, mr *uverbs.MR) error {
	b := &uverbs.BindMW{MW: mw, RKey: uverbs.IncRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: 8}
	_, err := qp.PostSend([]uverbs.SendWR{{Opcode: uverbs.OpBindMW, Bind: b}})
	return err
}

// TestWindowHoldsQP: the kernel hangs when it destroys a QP with a window of type
// 2, so it is not asked to.
func TestWindowHoldsQP(t *testing.T) {
	w := ready(t, uverbs.QPTypeRC)
	second := must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: uverbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))
	if err := errors.Join(second.Init(&uverbs.QPAttr{}), second.Connect(&uverbs.QPAttr{AH: uverbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID}})); err != nil {
		t.Fatal(err)
	}
	one := must[*uverbs.MW](t)(w.pd.AllocMW(uverbs.MWType1))
	for _, err := range []error{bindOn(w.qp, w.mw, w.mr), bindOn(w.qp, w.mw, w.mr), one.Bind(w.qp, 1, 0, uverbs.BindMW{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.qp.Close(); !errors.Is(err, uverbs.ErrInUse) || !strings.Contains(err.Error(), "close MW 5 first") {
		t.Errorf("%v", err)
	}
	if n, err := second.PostSend([]uverbs.SendWR{{Opcode: uverbs.OpSend}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := bindOn(second, w.mw, w.mr); !errors.Is(err, uverbs.ErrQueueFull) {
		t.Errorf("%v", err)
	}
	if err := w.qp.Close(); !errors.Is(err, uverbs.ErrInUse) {
		t.Errorf("a refused binding let the QP go: %v", err)
	}
	ksecond := w.k.QueuePairs()[1].RXE
	ksecond.TakeSend()
	if err := bindOn(second, w.mw, w.mr); err != nil {
		t.Error(err)
	}
	if err := w.qp.Close(); err != nil {
		t.Error(err)
	}
	if err := second.Close(); !errors.Is(err, uverbs.ErrInUse) {
		t.Errorf("%v", err)
	}
	for _, c := range []interface{ Close() error }{w.mw, one} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	ksecond.TakeSend()
	if err := bindOn(second, w.mw, w.mr); !errors.Is(err, uverbs.ErrClosed) {
		t.Errorf("bound a closed window: %v", err)
	}
	if err := one.Bind(second, 1, 0, uverbs.BindMW{}); !errors.Is(err, uverbs.ErrClosed) {
		t.Errorf("bound a closed window of type 1: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// TestWindowEnds: the kernel crashes when it is told to end what is not bound, so
// it is not told.
func TestWindowEnds(t *testing.T) {
	w := ready(t, uverbs.QPTypeRC)
	one := must[*uverbs.MW](t)(w.pd.AllocMW(uverbs.MWType1))
	end := func(key uint32) error {
		_, err := w.qp.PostSend([]uverbs.SendWR{{Opcode: uverbs.OpLocalInv, InvalidateRKey: key}})
		w.kqp.RXE.TakeSend()
		return err
	}
	bind := func() {
		t.Helper()
		if err := bindOn(w.qp, w.mw, w.mr); err != nil {
			t.Fatal(err)
		}
		w.take(t)
	}
	refused := func(when string, key uint32) {
		t.Helper()
		if err := end(key); !errors.Is(err, uverbs.ErrInvalidWR) || !strings.HasSuffix(err.Error(), "is the key of no window of type 2 that is bound") {
			t.Errorf("%s: %v", when, err)
		}
	}
	refused("never bound", w.mw.RKey())
	refused("type 1", one.RKey())
	refused("nobody's", w.mw.RKey()+512)
	for range 2 {
		bind()
		refused("the key before", w.mw.RKey()-1)
		if err := end(w.mw.RKey()); err != nil {
			t.Error(err)
		}
		refused("ended already", w.mw.RKey())
	}
	bind()
	w.kcq.RXE.Complete(abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, WcFlags: abi.IB_WC_WITH_INVALIDATE, Ex: w.mw.RKey()})
	w.poll(t)
	refused("ended by the peer", w.mw.RKey())
	bind()
	for _, c := range []interface{ Close() error }{w.mw, one} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	refused("closed", w.mw.RKey())
	if err := end(w.mr.RKey()); err != nil { // which the kernel refuses by itself
		t.Error(err)
	}
}

// TestWindowPD: kernels do not agree on what may be bound across PDs, so nothing
// may.
func TestWindowPD(t *testing.T) {
	w := ready(t, uverbs.QPTypeRC)
	other := must[*uverbs.PD](t)(w.dev.AllocPD())
	mw := must[*uverbs.MW](t)(other.AllocMW(uverbs.MWType1))
	mr := must[*uverbs.MR](t)(other.AllocMR(1, uverbs.AccessMWBind, nil))
	for _, err := range []error{bindOn(w.qp, mw, w.mr), bindOn(w.qp, w.mw, mr)} {
		if !errors.Is(err, uverbs.ErrInvalidWR) || !strings.HasSuffix(err.Error(), "the window, its MR and the QP must be of one PD") {
			t.Errorf("%v", err)
		}
	}
	for _, c := range []interface{ Close() error }{mw, mr, other} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
