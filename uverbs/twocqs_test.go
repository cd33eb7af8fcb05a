package uverbs_test

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// newTwoCQs is a QP with a small CQ for receives.
func newTwoCQs(t *testing.T, info uverbs.DeviceInfo) (w *world, recvCQ *uverbs.CQ, qp *uverbs.QP) {
	t.Helper()
	w = worldOn(t, info)
	recvCQ = must[*uverbs.CQ](t)(w.dev.CreateCQ(4, nil))
	opts := w.qpOptions()
	opts.RecvCQ = recvCQ
	qp = must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	t.Cleanup(func() { closeAll(t, qp, recvCQ) })
	return w, recvCQ, qp
}

// What is posted to a failed QP is bounded by the room on the CQ on which it completes,
// and completes there.
func TestFlushOnTwoCQs(t *testing.T) {
	w, recvCQ, qp := newTwoCQs(t, siw0)
	toError(t, qp)
	for _, c := range []struct {
		name string
		cq   *uverbs.CQ
		post func(n int) (int, error)
	}{
		{"receives", recvCQ, func(n int) (int, error) { return qp.PostRecv(make([]verbs.RecvWR, n)) }},
		{"sends", w.cq, func(n int) (int, error) { return qp.PostSend(make([]verbs.SendWR, n)) }},
	} {
		n, err := c.post(1000)
		if n != c.cq.Cap() || !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("%s: %d posted, %v; the CQ has room for %d", c.name, n, err, c.cq.Cap())
		}
		wcs := make([]verbs.WC, 1000)
		if got, err := c.cq.Poll(wcs); got != n || err != nil {
			t.Errorf("%s: %d completions of %d, %v", c.name, got, n, err)
		}
	}
}

// An SRQ can't be closed while a QP uses it.
func TestQPHoldsSRQ(t *testing.T) {
	w := newWorld(t)
	opts := w.qpOptions()
	opts.SRQ = w.srq
	qp := must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	if err := w.srq.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error(err)
	}
	if err := errors.Join(qp.Close(), w.srq.Close()); err != nil {
		t.Error(err)
	}
}

// Resizing an SRQ leaves its limit alone.
func TestResizeKeepsLimit(t *testing.T) {
	w := worldOn(t, rxe0)
	if err := errors.Join(w.srq.SetLimit(2), w.srq.Resize(60)); err != nil {
		t.Fatal(err)
	}
	if attr := must[*verbs.SRQAttr](t)(w.srq.Query()); attr.Limit != 2 || attr.MaxWR != w.srq.MaxWR() || attr.MaxWR < 60 {
		t.Errorf("%+v, room for %d", attr, w.srq.MaxWR())
	}
}
