package rxe

import (
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func bindOn(qp *uverbs.QP, mw *uverbs.MW, mr *uverbs.MR) error {
	b := &verbs.BindMW{MW: mw, RKey: uverbs.IncRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: 8}
	_, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Bind: b}})
	return err
}

// TestWindowHoldsQP checks that a QP with a bound window of type 2 is not destroyed,
// because the kernel would hang.
func TestWindowHoldsQP(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	second := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))
	if err := errors.Join(second.Init(&verbs.QPAttr{}), second.Connect(&verbs.QPAttr{AH: verbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID}})); err != nil {
		t.Fatal(err)
	}
	one := providertest.Must[*uverbs.MW](t)(w.pd.AllocMW(verbs.MWType1))
	for _, err := range []error{bindOn(w.qp, w.mw, w.mr), bindOn(w.qp, w.mw, w.mr), one.Bind(w.qp, 1, 0, verbs.BindMW{})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.qp.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "close MW 5 first") {
		t.Errorf("%v", err)
	}
	if n, err := second.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := bindOn(second, w.mw, w.mr); !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%v", err)
	}
	if err := w.qp.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Errorf("a refused binding let the QP go: %v", err)
	}
	ksecond := fakerxe.QPOf(w.k.QueuePairs()[1])
	ksecond.TakeSend()
	if err := bindOn(second, w.mw, w.mr); err != nil {
		t.Error(err)
	}
	if err := w.qp.Close(); err != nil {
		t.Error(err)
	}
	if err := second.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Errorf("%v", err)
	}
	for _, c := range []interface{ Close() error }{w.mw, one} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	ksecond.TakeSend()
	if err := bindOn(second, w.mw, w.mr); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("bound a closed window: %v", err)
	}
	if err := one.Bind(second, 1, 0, verbs.BindMW{}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("bound a closed window of type 1: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// TestWindowEnds checks that LOCAL_INV of an unbound window is refused, because the kernel
// would crash.
func TestWindowEnds(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	one := providertest.Must[*uverbs.MW](t)(w.pd.AllocMW(verbs.MWType1))
	end := func(key uint32) error {
		_, err := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpLocalInv, InvalidateRKey: key}})
		fakerxe.QPOf(w.kqp).TakeSend()
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
		if err := end(key); !errors.Is(err, verbs.ErrInvalidWR) || !strings.HasSuffix(err.Error(), "is not the key of a bound window of type 2") {
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
	fakerxe.CQOf(w.kcq).Complete(abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, WcFlags: abi.IB_WC_WITH_INVALIDATE, Ex: w.mw.RKey()})
	w.poll(t)
	refused("ended by the peer", w.mw.RKey())
	bind()
	for _, c := range []interface{ Close() error }{w.mw, one} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	refused("closed", w.mw.RKey())
	if err := end(w.mr.RKey()); err != nil { // the kernel refuses this itself
		t.Error(err)
	}
}

// TestWindowPD checks that bindings across PDs are refused, because kernels differ in which
// of them they allow.
func TestWindowPD(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	other := providertest.Must[*uverbs.PD](t)(w.dev.AllocPD())
	mw := providertest.Must[*uverbs.MW](t)(other.AllocMW(verbs.MWType1))
	mr := providertest.Must[*uverbs.MR](t)(other.AllocMR(1, verbs.AccessMWBind, nil))
	for _, err := range []error{bindOn(w.qp, mw, w.mr), bindOn(w.qp, w.mw, mr)} {
		if !errors.Is(err, verbs.ErrInvalidWR) || !strings.HasSuffix(err.Error(), "the window, its MR and the QP must have the same PD") {
			t.Errorf("%v", err)
		}
	}
	for _, c := range []interface{ Close() error }{mw, mr, other} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
