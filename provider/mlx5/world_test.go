package mlx5

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
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

const (
	depth  = 4 // work requests of each queue
	maxSGE = 6
)

var info = uverbs.DeviceInfo{Name: "mlx5_0", Driver: verbs.DriverMLX5, ABI: 1}

// newWorld makes a world whose QP is connected. change changes the QP's options.
func newWorld(t testing.TB, change func(*fakeverbs.Kernel, *uverbs.QPOptions)) *world {
	t.Helper()
	return makeWorld(t, uverbs.CQOptions{}, change)
}

// newStamped makes a world whose CQ has extended completions.
func newStamped(t testing.TB, ext verbs.WCExtMask) *world {
	t.Helper()
	return makeWorld(t, uverbs.CQOptions{Ext: ext}, nil)
}

func makeWorld(t testing.TB, cq uverbs.CQOptions, change func(*fakeverbs.Kernel, *uverbs.QPOptions)) *world {
	t.Helper()
	k := fakeverbs.New(uint32(verbs.DriverMLX5))
	w := &world{k: k}
	opts := &uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: maxSGE, MaxRecvSGE: 3}}
	if change != nil {
		change(k, opts)
	}
	end := providertest.Endpoint(t, info, k, &uverbs.EndpointOptions{SendCQEntries: 7, CQ: cq})
	w.dev, w.pd, w.cq = end.PD.Device(), end.PD, end.SendCQ
	w.mr = providertest.Must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
	if opts.SendCQ, opts.RecvCQ = w.cq, w.cq; opts.Type == verbs.QPTypeDCI {
		opts.RecvCQ, opts.Cap.MaxRecvWR, opts.Cap.MaxRecvSGE = nil, 0, 0
	}
	w.qp = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	w.kqp, w.kcq = k.QueuePairs()[0], k.CQs()[0]
	providertest.Bring(t, w.qp)
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

// wcOf is the completion of a SEND of n bytes, as the device has it.
func wcOf(n uint32) *abi.IbUverbsWc { return &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: n} }

// one polls a completion, of which there is one.
func (w *world) one(t testing.TB) verbs.WC {
	t.Helper()
	wcs := w.poll(t)
	if len(wcs) != 1 {
		t.Fatalf("%d completions: %+v", len(wcs), wcs)
	}
	return wcs[0]
}
