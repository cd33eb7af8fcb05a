package efa

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeefa "github.com/goverbs/goverbs/internal/fakeverbs/efa"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestSurvives checks that a work request that fails leaves the QP as it is. A later one succeeds.
func TestSurvives(t *testing.T) {
	w := newWorld(t, nil)
	for s := uint8(3); s <= 18; s++ {
		w.post(t, w.send(uint64(s)))
		if !fakeefa.QPOf(w.kqp).Fail(s) {
			t.Fatal("nothing to fail")
		}
		if wc := w.one(t); wc.WRID != uint64(s) || wc.VendorErr != uint32(s) || wc.Status != statusOf(s) {
			t.Errorf("status %d: %+v", s, wc)
		}
		w.post(t, w.send(100))
		w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		if wc := w.one(t); wc.WRID != 100 || wc.Status != verbs.StatusSuccess {
			t.Errorf("after status %d: %+v", s, wc)
		}
	}
	if a, err := w.qp.Query(); err != nil || a.State != verbs.QPStateRTS {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestReordered checks that work requests of a queue complete in any order, and free one place each.
func TestReordered(t *testing.T) {
	w := newWorld(t, nil)
	w.post(t, w.send(1), w.send(2), w.send(3), w.send(4))
	if n, err := w.qp.PostSend([]verbs.SendWR{w.send(5)}); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Fatal(n, err)
	}
	var taken []*fakeverbs.Work
	for range 4 {
		taken = append(taken, w.take(t))
	}
	for i, id := range []uint64{3, 1} {
		w.kqp.Sent(taken[id-1], abi.IB_WC_SUCCESS)
		if n, err := w.qp.PostSend([]verbs.SendWR{w.send(9)}); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatal("a place is free before its completion was polled", n, err)
		}
		if wc := w.one(t); wc.WRID != id {
			t.Errorf("%+v, want %d", wc, id)
		}
		w.post(t, w.send(uint64(10+i)))
	}
	w.kqp.Sent(taken[3], abi.IB_WC_SUCCESS)
	w.kqp.Sent(taken[1], abi.IB_WC_SUCCESS)
	if wcs := w.poll(t); len(wcs) != 2 || wcs[0].WRID != 4 || wcs[1].WRID != 2 {
		t.Errorf("%+v", wcs)
	}
}

// TestStates checks that posts are refused in states where the device takes none.
func TestStates(t *testing.T) {
	w := newWorld(t, nil)
	refused := func(state verbs.QPState, sends, recvs bool) {
		t.Helper()
		if n, err := w.qp.PostSend([]verbs.SendWR{w.send(1)}); (n == 0) != sends || errors.Is(err, syscall.EINVAL) != sends {
			t.Errorf("%v: send %d %v", state, n, err)
		}
		if n, err := w.qp.PostRecv([]verbs.RecvWR{w.recv(2)}); (n == 0) != recvs || errors.Is(err, syscall.EINVAL) != recvs {
			t.Errorf("%v: receive %d %v", state, n, err)
		}
	}
	modify := func(s verbs.QPState) {
		t.Helper()
		if err := w.qp.Modify(&verbs.QPAttr{State: s}, verbs.QPAttrState); err != nil {
			t.Fatal(err)
		}
	}
	refused(verbs.QPStateRTS, false, false)
	modify(verbs.QPStateErr)
	refused(verbs.QPStateErr, true, true)
	if wcs := w.poll(t); len(wcs) != 2 || wcs[0].Status != verbs.StatusWRFlushErr || wcs[1].Status != verbs.StatusWRFlushErr {
		t.Errorf("%+v", wcs)
	}
	modify(verbs.QPStateReset)
	refused(verbs.QPStateReset, true, true)
	if err := w.qp.Init(&verbs.QPAttr{QKey: 5}); err != nil {
		t.Fatal(err)
	}
	refused(verbs.QPStateInit, true, false)
	if err := w.qp.Connect(&verbs.QPAttr{RNRRetry: 3}); err != nil {
		t.Fatal(err)
	}
	refused(verbs.QPStateRTS, false, false)
	if a, err := w.qp.Query(); err != nil || a.State != verbs.QPStateRTS || a.QKey != 5 || a.RNRRetry != 3 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestFlushedByClose checks that the work requests that a QP has when it is closed are flushed, and
// can be polled.
func TestFlushedByClose(t *testing.T) {
	for name, late := range map[string]bool{"at ERR": false, "at the end": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *fakeefa.Options, _ *uverbs.QPOptions) { o.FlushAtDestroy = late })
			w.post(t, w.send(1), w.send(2))
			w.postRecv(t, w.recv(3))
			if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
				t.Fatal(err)
			}
			if err := w.qp.Close(); err != nil {
				t.Fatal(err)
			}
			var ids []uint64
			for _, wc := range w.poll(t) {
				if ids = append(ids, wc.WRID); wc.Status != verbs.StatusWRFlushErr || wc.QPN != w.qp.QPN() {
					t.Errorf("%+v", wc)
				}
			}
			slices.Sort(ids)
			if !slices.Equal(ids, []uint64{1, 2, 3}) {
				t.Errorf("work requests %d were flushed", ids)
			}
		})
	}
}

// TestNumberAgain checks that completions of a destroyed QP do not count for the next QP
// with its number.
func TestNumberAgain(t *testing.T) {
	w := newWorld(t, func(o *fakeefa.Options, _ *uverbs.QPOptions) { o.Kernel = fakeefa.Linux72 })
	var id uint64
	w.k.Cross = func(c *fakeverbs.Crossing) {
		if c.Kind == fakeverbs.EntrySQE {
			id = uint64(binary.LittleEndian.Uint16(c.Bytes))
		}
	}
	w.post(t, w.send(1))
	w.k.Cross = nil
	if err := w.qp.Close(); err != nil {
		t.Fatal(err)
	}
	w.poll(t) // the flushed send
	qpn := w.qp.QPN()
	for w.again(t); w.qp.QPN() != qpn; w.again(t) { // the other numbers with these low bits
		if w.qp.QPN()%256 != qpn%256 {
			t.Fatalf("QP %d, then %d", qpn, w.qp.QPN())
		}
		if err := w.qp.Close(); err != nil {
			t.Fatal(err)
		}
	}
	providertest.Bring(t, w.qp)
	w.post(t, w.send(9))
	for _, n := range []uint32{qpn, w.qp.QPN()} {
		fakeefa.CQOf(w.kcq).Complete(fakeefa.CQE{ReqID: id, Queue: ofSends, QPN: n}, 0)
	}
	if wcs := w.poll(t); len(wcs) > 0 {
		t.Errorf("%+v", wcs)
	}
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
	if wc := w.one(t); wc.WRID != 9 {
		t.Errorf("%+v", wc)
	}
}

// again makes another QP.
func (w *world) again(t *testing.T) {
	t.Helper()
	w.qp = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeSRD, SendCQ: w.cq, RecvCQ: w.cq,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 2, MaxRecvSGE: 3}}))
	all := w.k.QueuePairs()
	w.kqp = all[len(all)-1]
}

// TestDestroyRefused checks that a QP, a CQ and an AH that the kernel does not destroy stay usable.
func TestDestroyRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.k.Fail("QP_DESTROY", 0, syscall.EBUSY)
	if err := w.qp.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	w.k.Fail("AH_DESTROY", 0, syscall.EBUSY)
	if err := w.ah.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	w.post(t, w.send(1))
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
	w.one(t)
	if err := errors.Join(w.qp.Close(), w.ah.Close()); err != nil {
		t.Fatal(err)
	}
	w.k.Fail("CQ_DESTROY", 0, syscall.EBUSY)
	if err := w.cq.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	if n, err := w.cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// TestCreateRefused checks that create calls that the kernel refuses leave nothing behind.
func TestCreateRefused(t *testing.T) {
	w := newWorld(t, nil)
	for call, create := range map[string]func() error{
		"ALLOC_PD":  func() error { _, err := w.dev.AllocPD(); return err },
		"CQ_CREATE": func() error { _, err := w.dev.CreateCQ(1, nil); return err },
		"CREATE_AH": func() error {
			_, err := w.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: verbs.GID{5}})
			return err
		},
		"QP_CREATE": func() error {
			_, err := w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeUD, SendCQ: w.cq, RecvCQ: w.cq})
			return err
		},
	} {
		w.k.Fail(call, 0, syscall.ENOMEM)
		if err := create(); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %v", call, err)
		}
	}
	for i := range 4 { // the four mappings of a QP
		w.k.Fail("MMAP", i, syscall.ENOMEM)
		if _, err := w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeUD, SendCQ: w.cq, RecvCQ: w.cq}); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("mapping %d: %v", i, err)
		}
	}
}

// TestAddresses checks that on kernels that do not count them, the handles of one address live until
// the last of them is closed, whichever was first. A handle of a closed AH is refused.
func TestAddresses(t *testing.T) {
	for _, kernel := range []fakeefa.Kernel{fakeefa.Linux61, fakeefa.Linux72, fakeefa.Linux73} {
		w := newWorld(t, func(o *fakeefa.Options, _ *uverbs.QPOptions) { o.Kernel = kernel })
		calls := w.k.Calls("CREATE_AH")
		twin := providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: fakeverbs.GID}))
		other := providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: verbs.GID{15: 7}}))
		if n := w.k.Calls("CREATE_AH") - calls; n != 1 {
			t.Errorf("%d calls, want 1 for two handles, of which one is a twin", n)
		}
		first, _ := w.ah.Number()
		if n, ok := twin.Number(); n != first || !ok {
			t.Error(n, ok, first)
		}
		if n, ok := other.Number(); n == first || !ok {
			t.Error(n, ok, first)
		}
		if err := w.ah.Close(); err != nil {
			t.Fatal(err)
		}
		wr := w.send(1)
		if n, err := w.qp.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) {
			t.Error(n, err)
		}
		wr.AH = twin
		w.post(t, wr)
		w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		if wc := w.one(t); wc.Status != verbs.StatusSuccess {
			t.Errorf("%+v", wc)
		}
		w.k.Fail("AH_DESTROY", 0, syscall.EBUSY)
		if err := twin.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Error(err)
		}
		if err := errors.Join(twin.Close(), other.Close()); err != nil {
			t.Error(err)
		}
		if n := w.k.Calls("AH_DESTROY"); n != 3 {
			t.Errorf("%d calls of AH_DESTROY, want one that failed and one each", n)
		}
	}
}

// TestForeignAH checks that the address handle of another PD is refused.
func TestForeignAH(t *testing.T) {
	w := newWorld(t, nil)
	pd := providertest.Must[*uverbs.PD](t)(w.dev.AllocPD())
	ah := providertest.Must[*uverbs.AH](t)(pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: fakeverbs.GID}))
	wr := w.send(1)
	wr.AH = ah
	if n, err := w.qp.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) {
		t.Error(n, err)
	}
	if err := errors.Join(ah.Close(), pd.Close()); err != nil {
		t.Error(err)
	}
	if _, err := w.pd.CreateAH(&verbs.AHAttr{Port: 1, DGID: fakeverbs.GID}); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

// TestConcurrent posts and polls in different goroutines, which the race detector watches.
func TestConcurrent(t *testing.T) {
	w := newWorld(t, nil)
	w.k.Rang = func(qp *fakeverbs.QP) {
		for {
			s, ok := qp.TakeSend()
			if !ok {
				return
			}
			qp.Sent(s, abi.IB_WC_SUCCESS)
		}
	}
	const all = 400
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(0); i < all; {
			n, err := w.qp.PostSend([]verbs.SendWR{w.send(i)})
			if i += uint64(n); err != nil && !errors.Is(err, verbs.ErrQueueFull) {
				t.Error(err)
				return
			}
			runtime.Gosched()
		}
	})
	seen := make(map[uint64]bool)
	wcs := make([]verbs.WC, 3)
	for len(seen) < all && !t.Failed() {
		n, err := w.cq.Poll(wcs)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			runtime.Gosched()
		}
		for _, wc := range wcs[:n] {
			if seen[wc.WRID] || wc.Status != verbs.StatusSuccess {
				t.Errorf("%+v", wc)
			}
			seen[wc.WRID] = true
		}
	}
	wg.Wait()
}
