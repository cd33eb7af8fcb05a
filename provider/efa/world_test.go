package efa

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeefa "github.com/goverbs/goverbs/internal/fakeverbs/efa"
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
	ah  *uverbs.AH
	qp  *uverbs.QP
	kqp *fakeverbs.QP
	kcq *fakeverbs.CQ
}

const depth = 4 // work requests of each queue

var info = uverbs.DeviceInfo{Name: "efa_0", Driver: verbs.DriverEFA, ABI: 1, Ports: 1, NodeType: verbs.NodeUnspecified}

// newWorld makes a world whose QP is in RTS. change changes the device and the QP's options.
func newWorld(t testing.TB, change func(*fakeefa.Options, *uverbs.QPOptions)) *world {
	t.Helper()
	k := fakeverbs.New(uint32(verbs.DriverEFA))
	w := &world{k: k}
	opts := &uverbs.QPOptions{Type: verbs.QPTypeSRD, Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 2, MaxRecvSGE: 3}}
	if change != nil {
		change(fakeefa.OptionsOf(k), opts)
	}
	end := providertest.Endpoint(t, info, k, &uverbs.EndpointOptions{SendCQEntries: 8})
	w.dev, w.pd, w.cq = end.PD.Device(), end.PD, end.SendCQ
	w.mr = providertest.Must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
	w.ah = providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: fakeverbs.GID}))
	opts.SendCQ, opts.RecvCQ = w.cq, w.cq
	w.qp = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	w.kqp, w.kcq = k.QueuePairs()[0], k.CQs()[0]
	providertest.Bring(t, w.qp)
	return w
}

// send is a send of 4 bytes to the QP itself.
func (w *world) send(id uint64) verbs.SendWR {
	return verbs.SendWR{WRID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{w.mr.SGE(0, 4)}, AH: w.ah, RemoteQPN: w.qp.QPN()}
}

func (w *world) recv(id uint64) verbs.RecvWR {
	return verbs.RecvWR{WRID: id, SGL: []verbs.SGE{w.mr.SGE(100, 100)}}
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
