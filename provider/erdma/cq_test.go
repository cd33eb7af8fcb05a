package erdma

import (
	"context"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	fakeerdma "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// send posts a send and completes it.
func (w *world) send(t testing.TB) {
	t.Helper()
	w.post(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
}

// TestEvents takes 300 events, more than the counters of arms and events hold, one per arm;
// in between it arms twice, and while an event is unread.
func TestEvents(t *testing.T) {
	w := newWorld(t, nil)
	arm := func() {
		if err := w.cq.Arm(false); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		arm()
		if i%3 == 0 {
			arm()
		}
		w.send(t)
		if i%5 == 0 {
			arm() // ignored
		}
		if cq, err := w.cq.Channel().Get(context.Background()); cq != w.cq || err != nil {
			t.Fatal(cq, err)
		}
		if w.kcq.Armed() {
			t.Fatalf("armed after event %d", i)
		}
		w.one(t)
	}
}

// TestSolicited checks that of successes only those count that the sender marked.
func TestSolicited(t *testing.T) {
	w := newWorld(t, nil)
	for _, solicited := range []bool{false, true} {
		if err := w.cq.Arm(true); err != nil {
			t.Fatal(err)
		}
		w.postRecv(t, verbs.RecvWR{})
		r, _ := w.kqp.TakeRecv()
		w.kqp.Received(r, &abi.IbUverbsWc{}, solicited)
		if w.kcq.Armed() == solicited {
			t.Errorf("solicited %v: armed %v", solicited, w.kcq.Armed())
		}
		w.one(t)
	}
}

// TestStatuses completes a send and a receive with each syndrome.
func TestStatuses(t *testing.T) {
	for syndrome, want := range map[uint8]verbs.WC{
		1: {Status: verbs.StatusGeneralErr}, 2: {Status: verbs.StatusGeneralErr, VendorErr: 1},
		3: {Status: verbs.StatusRemAccessErr, VendorErr: 2}, 4: {Status: verbs.StatusRemAccessErr, VendorErr: 3},
		5: {Status: verbs.StatusRemAccessErr, VendorErr: 4}, 6: {Status: verbs.StatusRemAccessErr, VendorErr: 5},
		7: {Status: verbs.StatusRemAccessErr, VendorErr: 6}, 8: {Status: verbs.StatusLocQPOpErr, VendorErr: 0x20},
		9: {Status: verbs.StatusGeneralErr, VendorErr: 0x21}, 10: {Status: verbs.StatusLocAccessErr, VendorErr: 0x30},
		11: {Status: verbs.StatusLocAccessErr, VendorErr: 0x31}, 12: {Status: verbs.StatusLocAccessErr, VendorErr: 0x32},
		13: {Status: verbs.StatusLocAccessErr, VendorErr: 0x33}, 14: {Status: verbs.StatusLocAccessErr, VendorErr: 0x34},
		15: {Status: verbs.StatusWRFlushErr}, 16: {Status: verbs.StatusRetryExcErr},
		17: {Status: verbs.StatusGeneralErr, VendorErr: 17}, 255: {Status: verbs.StatusGeneralErr, VendorErr: 255},
	} {
		want.QPN = 1
		w := newWorld(t, nil)
		w.post(t, verbs.SendWR{WRID: 4, Opcode: verbs.OpSend}) // unsignaled
		fakeerdma.QPOf(w.kqp).Fail(syndrome)
		if want.WRID = 4; w.one(t) != want {
			t.Errorf("syndrome %d of a send: want %+v", syndrome, want)
		}
		w = newWorld(t, nil)
		w.postRecv(t, verbs.RecvWR{WRID: 5})
		fakeerdma.QPOf(w.kqp).FailRecv(syndrome)
		if want.WRID = 5; w.one(t) != want {
			t.Errorf("syndrome %d of a receive: want %+v", syndrome, want)
		}
	}
}

// TestUnsignaled checks that a completion frees all earlier sends.
func TestUnsignaled(t *testing.T) {
	w := newWorld(t, nil)
	for range 10 {
		for i := range depth {
			wr := verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSend, Inline: data(96)}
			if i == depth-1 {
				wr.Flags = verbs.SendSignaled
			}
			w.post(t, wr)
		}
		for range depth {
			w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
		}
		if wc := w.one(t); wc.WRID != depth-1 {
			t.Errorf("%+v", wc)
		}
	}
}

// TestHostile has the device write completions that it must not write: Poll returns none of
// them, and all works afterwards.
func TestHostile(t *testing.T) {
	w := newWorld(t, nil)
	qpn := w.qp.QPN()
	w.post(t, verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, Inline: data(96)}, verbs.SendWR{WRID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	w.postRecv(t, verbs.RecvWR{WRID: 3}, verbs.RecvWR{WRID: 4})
	for _, c := range []fakeerdma.CQE{
		{QPN: qpn + 1}, {QPN: 1<<32 - 1}, {QPN: 1 << 24},
		{QPN: qpn, Index: 1}, {QPN: qpn, Index: 3}, // inside the first send
		{QPN: qpn, Index: 5}, {QPN: qpn, Index: 0xffff}, {QPN: qpn, Index: 16}, // where there is none
		{QPN: qpn, QueueType: 1, Index: 1}, {QPN: qpn, QueueType: 1, Index: 3}, {QPN: qpn, QueueType: 9, Index: 2},
	} {
		fakeerdma.CQOf(w.kcq).Complete(c)
		if wcs := w.poll(t); len(wcs) > 0 {
			t.Errorf("%+v comes of %+v", wcs, c)
		}
	}
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
	w.kqp.Sent(w.take(t), abi.IB_WC_SUCCESS)
	if wc := w.one(t); wc.WRID != 2 {
		t.Errorf("%+v", wc)
	}
	fakeerdma.CQOf(w.kcq).Complete(fakeerdma.CQE{QPN: qpn, Index: 4}) // once more
	if wcs := w.poll(t); len(wcs) > 0 {
		t.Errorf("%+v comes twice", wcs)
	}
}

// TestWrongCQ checks that a completion of a QP that has other CQs is skipped.
func TestWrongCQ(t *testing.T) {
	w := newWorld(t, nil)
	other := providertest.Must[*uverbs.CQ](t)(w.dev.CreateCQ(1, nil))
	w.post(t, verbs.SendWR{Opcode: verbs.OpSend})
	w.postRecv(t, verbs.RecvWR{})
	kother := fakeerdma.CQOf(w.k.CQs()[1])
	kother.Complete(fakeerdma.CQE{QPN: w.qp.QPN()})
	kother.Complete(fakeerdma.CQE{QPN: w.qp.QPN(), QueueType: 1})
	if n, err := other.Poll(make([]verbs.WC, 4)); n != 0 || err != nil {
		t.Error(n, err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestCQLaps polls in batches of several sizes around a CQ of 64 entries.
func TestCQLaps(t *testing.T) {
	w := newWorld(t, nil)
	if w.cq.Cap() != minCQE {
		t.Errorf("%d entries", w.cq.Cap())
	}
	wcs := make([]verbs.WC, 3)
	for i := range 200 {
		batch := i%depth + 1
		for range batch {
			w.send(t)
		}
		got := 0
		for got < batch {
			n, err := w.cq.Poll(wcs[:1+i%3])
			if n == 0 || err != nil {
				t.Fatal(n, err)
			}
			got += n
		}
	}
}

// FuzzCQE reads completions of arbitrary bytes.
func FuzzCQE(f *testing.F) {
	f.Add(uint8(0), uint8(0), uint8(0), uint32(0), uint32(1), uint32(3), uint32(4))
	f.Fuzz(func(t *testing.T, op, queue, syndrome uint8, index, qpn, imm, size uint32) {
		w := newWorld(t, nil)
		w.post(t, verbs.SendWR{WRID: 1, Opcode: verbs.OpSend})
		w.postRecv(t, verbs.RecvWR{WRID: 2})
		fakeerdma.CQOf(w.kcq).Complete(fakeerdma.CQE{Opcode: op, QueueType: queue, Syndrome: syndrome, Index: index, QPN: qpn, Imm: imm, InvalidatedKey: imm, Size: size})
		for _, wc := range w.poll(t) {
			if wc.QPN != w.qp.QPN() || wc.WRID != 1 && wc.WRID != 2 {
				t.Errorf("%+v", wc)
			}
		}
	})
}
