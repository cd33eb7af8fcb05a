package erdma

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeerdma "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestFlush checks that the device flushes the work requests that it has, and that later
// ones are flushed by the provider, which does not ring.
func TestFlush(t *testing.T) {
	stores := 0
	w := newWorld(t, func(k *fakeverbs.Kernel, _ *uverbs.QPOptions) {
		k.Cross = func(c *fakeverbs.Crossing) {
			if c.Kind == fakeverbs.Doorbell {
				stores++
			}
		}
	})
	w.post(t, verbs.SendWR{WRID: 1, Opcode: verbs.OpSend}, verbs.SendWR{WRID: 2, Opcode: verbs.OpSend})
	w.postRecv(t, verbs.RecvWR{WRID: 3})
	w.kqp.Break()
	rung := stores
	seen := map[uint64]bool{}
	flushed := func() {
		t.Helper()
		for _, wc := range w.poll(t) {
			if wc.Status != verbs.StatusWRFlushErr || wc.QPN != w.qp.QPN() || seen[wc.WRID] {
				t.Errorf("%+v", wc)
			}
			seen[wc.WRID] = true
		}
	}
	flushed()
	for i := range uint64(3) {
		w.post(t, verbs.SendWR{WRID: 10 + i, Opcode: verbs.OpRDMAWrite}, verbs.SendWR{WRID: 20 + i, Opcode: verbs.OpSend})
		w.postRecv(t, verbs.RecvWR{WRID: 30 + i}, verbs.RecvWR{WRID: 40 + i})
		if n, err := w.qp.PostSend([]verbs.SendWR{{Opcode: 99}}); n != 0 || !errors.Is(err, verbs.ErrNotSupported) {
			t.Error(n, err)
		}
	}
	flushed()
	if len(seen) != 3+12 || stores != rung {
		t.Errorf("%d flushed, %d stores", len(seen), stores-rung)
	}
}

// TestPostedUnaware checks that sends that were posted before the failure was polled are
// flushed by the device, when the kernel stops the QP.
func TestPostedUnaware(t *testing.T) {
	w := newWorld(t, nil)
	w.postRecv(t, verbs.RecvWR{WRID: 1})
	w.kqp.Break()
	w.post(t, verbs.SendWR{WRID: 2, Opcode: verbs.OpSend})
	w.postRecv(t, verbs.RecvWR{WRID: 3})
	if wc := w.one(t); wc.WRID != 1 {
		t.Errorf("%+v", wc)
	}
	if wcs := w.poll(t); len(wcs) != 2 {
		t.Errorf("%+v", wcs)
	}
}

// TestDestroyRefused checks that a QP and a CQ that the kernel does not destroy stay
// usable.
func TestDestroyRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.k.Fail("QP_DESTROY", 0, syscall.EBUSY)
	if err := w.qp.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	w.send(t)
	w.one(t)
	if err := w.qp.Close(); err != nil {
		t.Fatal(err)
	}
	w.k.Fail("CQ_DESTROY", 0, syscall.EBUSY)
	if err := w.cq.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatal(err)
	}
	if err := w.cq.Arm(false); err != nil {
		t.Error(err)
	}
}

// TestCreateRefused checks that create calls that the kernel refuses leave nothing behind,
// neither memory nor a slot of doorbell records, each of which may be used once only.
func TestCreateRefused(t *testing.T) {
	w := newWorld(t, nil)
	allocs := w.k.Calls("ALLOC")
	for range 600 { // more than a page of slots
		w.k.Fail("CQ_CREATE", 0, syscall.ENOMEM)
		if _, err := w.dev.CreateCQ(1, nil); !errors.Is(err, syscall.ENOMEM) {
			t.Fatal(err)
		}
		w.k.Fail("QP_CREATE", 0, syscall.ENOMEM)
		if _, err := w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq}); !errors.Is(err, syscall.ENOMEM) {
			t.Fatal(err)
		}
	}
	if n := w.k.Calls("ALLOC") - allocs; n != 1200 {
		t.Errorf("%d allocations, want one a queue", n)
	}
	w.k.Fail("ALLOC", 0, syscall.ENOMEM)
	if _, err := w.dev.CreateCQ(1, nil); !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
}

// TestRecords checks that each QP has its own slot, in pages that are filled one after the
// other.
func TestRecords(t *testing.T) {
	w := newWorld(t, nil)
	allocs := w.k.Calls("ALLOC")
	var qps []*uverbs.QP
	for range 300 {
		qps = append(qps, providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq})))
	}
	for round := range 2 {
		for i := range qps {
			if err := qps[i].Close(); err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				qps[i] = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq}))
			}
		}
	}
	if n := w.k.Calls("ALLOC") - allocs; n != 600+1 {
		t.Errorf("%d allocations, want one a QP and one page of records", n)
	}
}

// TestNumberAgain checks that completions of a destroyed QP do not count for the next QP
// with its number.
func TestNumberAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.send(t)
	if err := w.qp.Close(); err != nil {
		t.Fatal(err)
	}
	qpn := w.qp.QPN()
	w.qp = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth}}))
	w.kqp = w.k.QueuePairs()[0]
	w.kqp.Connect(16, 16)
	if w.qp.QPN() != qpn {
		t.Fatalf("QP %d, then %d", qpn, w.qp.QPN())
	}
	w.poll(t) // the old QP's, which was set aside
	fakeerdma.CQOf(w.kcq).Complete(fakeerdma.CQE{QPN: qpn})
	if wcs := w.poll(t); len(wcs) > 0 {
		t.Errorf("%+v", wcs)
	}
	w.post(t, verbs.SendWR{WRID: 9, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
	if wc := w.one(t); wc.WRID != 9 {
		t.Errorf("%+v", wc)
	}
}
