package erdma

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// world is a QP and the objects that it needs, on the model of the device. The test plays
// the device: it takes sends and receives, and chooses how they complete.
type world struct {
	k   *fakeverbs.Kernel
	dev *uverbs.Device
	pd  *uverbs.PD
	cq  *uverbs.CQ
	mr  *uverbs.MR
	qp  *uverbs.QP
	kqp *fakeverbs.QP
	kcq *fakeverbs.CQ
}

const depth = 4 // work requests of each queue

var info = uverbs.DeviceInfo{Name: "erdma0", Driver: verbs.DriverERDMA, ABI: 1}

// newWorld makes a world whose QP is connected. change changes the QP's options.
func newWorld(t testing.TB, change func(*fakeverbs.Kernel, *uverbs.QPOptions)) *world {
	t.Helper()
	k := fakeverbs.New(uint32(verbs.DriverERDMA))
	w := &world{k: k}
	opts := &uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: maxSGE, MaxRecvSGE: 1}}
	if change != nil {
		change(k, opts)
	}
	end := providertest.Endpoint(t, info, k, &uverbs.EndpointOptions{SendCQEntries: 1})
	w.dev, w.pd, w.cq = end.PD.Device(), end.PD, end.SendCQ
	w.mr = providertest.Must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
	opts.SendCQ, opts.RecvCQ = w.cq, w.cq
	w.qp = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	w.kqp, w.kcq = k.QueuePairs()[0], k.CQs()[0]
	w.kqp.Connect(16, 16)
	return w
}

// post queues sends, all of which must be accepted.
func (w *world) post(t testing.TB, wrs ...verbs.SendWR) {
	t.Helper()
	if n, err := w.qp.PostSend(wrs); n != len(wrs) || err != nil {
		t.Fatal(n, err)
	}
}

func (w *world) postRecv(t testing.TB, wrs ...verbs.RecvWR) {
	t.Helper()
	if n, err := w.qp.PostRecv(wrs); n != len(wrs) || err != nil {
		t.Fatal(n, err)
	}
}

// take returns the oldest send as the device finds it.
func (w *world) take(t testing.TB) *fakeverbs.Work {
	t.Helper()
	s, ok := w.kqp.TakeSend()
	if !ok {
		t.Fatal("nothing was sent")
	}
	return s
}

func (w *world) poll(t testing.TB) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 64)
	return wcs[:providertest.Must[int](t)(w.cq.Poll(wcs))]
}

// one polls a completion, of which there is one.
func (w *world) one(t testing.TB) verbs.WC {
	t.Helper()
	wcs := w.poll(t)
	if len(wcs) != 1 {
		t.Fatalf("%d completions: %+v", len(wcs), wcs)
	}
	return wcs[0]
}
