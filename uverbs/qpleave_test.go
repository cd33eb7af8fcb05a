package uverbs_test

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func bad(qpn uint32, wrID uint64) verbs.WC {
	return verbs.WC{WRID: wrID, QPN: qpn, Status: verbs.StatusRetryExcErr}
}

func (w *spyWorld) pollAll(t *testing.T) (ids []uint64) {
	t.Helper()
	wcs := make([]verbs.WC, 16)
	for _, wc := range wcs[:must[int](t)(w.cq.Poll(wcs))] {
		ids = append(ids, wc.WRID)
	}
	return ids
}

// TestReusedNumber has the kernel give a QP's number away before its owner hears that
// it is gone. What the old QP left is not the new one's failure; what comes later is.
func TestReusedNumber(t *testing.T) {
	for _, cleaner := range []bool{false, true} {
		w := newSpyWorld(t, !cleaner)
		num := w.qp.Num()
		w.cqs[0].push(bad(num, 1))
		var second *uverbs.QP
		w.file.destroyed = func() { second = w.newQP(t) }
		if err := w.qp.Close(); err != nil {
			t.Fatal(err)
		}
		if second.Num() != num {
			t.Fatalf("number %d, want %d again", second.Num(), num)
		}
		want := 1 // which is set aside
		if cleaner {
			want = 0
		}
		if got := w.pollAll(t); len(got) != want || w.count("fail") != 0 {
			t.Errorf("cleaner %v: polled %d, the new QP failed %d times", cleaner, got, w.count("fail"))
		}
		w.cqs[0].push(bad(num, 2))
		if got := w.pollAll(t); len(got) != 1 || w.count("fail") != 1 {
			t.Errorf("cleaner %v: polled %d, the new QP failed %d times", cleaner, got, w.count("fail"))
		}
		if w.table.Get(num) == nil {
			t.Error("the provider's table lost the new QP")
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestResetUnderPolling has others poll all the time while a QP is put into RESET. From
// the end of the kernel's part to that of the provider's none of them gets at the ring,
// and a completion of the earlier life fails nothing.
func TestResetUnderPolling(t *testing.T) {
	for _, cleaner := range []bool{false, true} {
		w := newSpyWorld(t, !cleaner)
		stop := make(chan struct{})
		var pollers sync.WaitGroup
		for range 2 {
			pollers.Go(func() {
				for wcs := make([]verbs.WC, 4); ; {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := w.cq.Poll(wcs); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for i := range uint64(500) {
			w.cqs[0].push(verbs.WC{QPN: w.qp.Num(), WRID: i})
			if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		pollers.Wait()
		if n := w.polled.Load(); n > 0 {
			t.Errorf("cleaner %v: polled %d times in the middle of a RESET", cleaner, n)
		}
		if cleaned := w.count("clean") >= 500; cleaned != cleaner {
			t.Errorf("cleaner %v: cleaned %d times", cleaner, w.count("clean"))
		}
	}
}

// TestFailedReset: the provider fails when the kernel has done its part. The new life
// has begun, so what the earlier one left fails nothing.
func TestFailedReset(t *testing.T) {
	w := newSpyWorld(t, true)
	w.cqs[0].push(bad(w.qp.Num(), 1))
	w.fail = "after modify"
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); !errors.Is(err, errSpy) {
		t.Fatal(err)
	}
	if got := w.pollAll(t); len(got) != 1 || w.count("fail") != 0 {
		t.Errorf("polled %d, failed %d times", got, w.count("fail"))
	}
}

// TestDestroyFails: when the kernel or the provider refuses, the QP goes on, with its
// completions, its failures and its posts.
func TestDestroyFails(t *testing.T) {
	for _, refuse := range []func(w *spyWorld){
		func(w *spyWorld) { w.file.Fail("QP_DESTROY", 0, syscall.EBUSY) },
		func(w *spyWorld) { w.fail = "destroy QP" },
	} {
		w := newSpyWorld(t, false)
		w.cqs[0].push(bad(w.qp.Num(), 1))
		refuse(w)
		if err := w.qp.Close(); err == nil {
			t.Fatal("closed")
		}
		if n := w.count("clean"); n != 0 || w.table.Get(w.qp.Num()) == nil {
			t.Errorf("cleaned %d times, or forgotten", n)
		}
		if n, err := w.qp.PostSend(make([]verbs.SendWR, 2)); n != 2 || err != nil {
			t.Error(n, err)
		}
		if got := w.pollAll(t); len(got) != 1 || w.count("fail") != 1 {
			t.Errorf("polled %d, failed %d times", got, w.count("fail"))
		}
		if got := w.pollAll(t); len(got) != 2 { // flushed
			t.Errorf("polled %d", got)
		}
	}
}

// TestCQDestroyFails: a CQ that the kernel keeps can be polled.
func TestCQDestroyFails(t *testing.T) {
	w := newSpyWorld(t, false)
	cq := must[*uverbs.CQ](t)(w.dev.CreateCQ(1, nil))
	w.file.Fail("CQ_DESTROY", 0, syscall.EBUSY)
	if err := cq.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	if _, err := cq.Poll(make([]verbs.WC, 1)); err != nil {
		t.Error(err)
	}
	if err := cq.Close(); err != nil {
		t.Error(err)
	}
}
