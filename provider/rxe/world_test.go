package rxe

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// world is a QP and the objects that it needs, on the fake kernel.
type world struct {
	k    *fakeverbs.Kernel
	dev  *uverbs.Device
	pd   *uverbs.PD
	cq   *uverbs.CQ
	srq  *uverbs.SRQ
	ah   *uverbs.AH
	mr   *uverbs.MR
	mw   *uverbs.MW
	qp   *uverbs.QP
	kqp  *fakeverbs.QP
	kcq  *fakeverbs.CQ
	ksrq *fakeverbs.SRQ
}

const depth = 3 // of each work queue, in slots 4

var info = uverbs.DeviceInfo{Name: "rxe0", Driver: verbs.DriverRXE, ABI: 2}

// newWorld makes a world whose QP is in RESET. It has its own receive queue unless change
// gives it an SRQ.
func newWorld(t testing.TB, typ verbs.QPType, change func(*world, *uverbs.QPOptions)) *world {
	t.Helper()
	return newWorldOn(t, fakeverbs.New(uint32(verbs.DriverRXE)), typ, change)
}

func newWorldOn(t testing.TB, k *fakeverbs.Kernel, typ verbs.QPType, change func(*world, *uverbs.QPOptions)) *world {
	t.Helper()
	w := &world{k: k}
	end := providertest.Endpoint(t, info, k, &uverbs.EndpointOptions{SendCQEntries: 16})
	w.dev, w.pd, w.cq = end.PD.Device(), end.PD, end.SendCQ
	w.srq = providertest.Must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: depth, MaxSGE: 2}))
	w.ah = providertest.Must[*uverbs.AH](t)(w.pd.CreateAH(&verbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, Port: 1}))
	w.mr = providertest.Must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessMWBind, nil))
	w.mw = providertest.Must[*uverbs.MW](t)(w.pd.AllocMW(verbs.MWType2))
	opts := &uverbs.QPOptions{Type: typ, SendCQ: w.cq, RecvCQ: w.cq,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 3, MaxRecvSGE: 3}}
	if change != nil {
		change(w, opts)
	}
	w.qp = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	w.kqp, w.kcq, w.ksrq = k.QueuePairs()[0], k.CQs()[0], k.SRQs()[0]
	return w
}

// ready returns a world whose QP is in RTS.
func ready(t testing.TB, typ verbs.QPType) *world {
	t.Helper()
	w := newWorld(t, typ, nil)
	w.connect(t)
	return w
}

func (w *world) connect(t testing.TB) {
	t.Helper()
	if err := w.qp.Init(&verbs.QPAttr{QKey: 1}); err != nil {
		t.Fatal(err)
	}
	to := verbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, Port: 1}
	if err := w.qp.Connect(&verbs.QPAttr{DestQPN: 17, AH: to}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) modify(t testing.TB, s verbs.QPState) {
	t.Helper()
	if err := w.qp.Modify(&verbs.QPAttr{State: s}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
}

func (w *world) poll(t testing.TB) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 64)
	return wcs[:providertest.Must[int](t)(w.cq.Poll(wcs))]
}

// post queues sends, all of which must be accepted.
func (w *world) post(t testing.TB, wrs ...verbs.SendWR) {
	t.Helper()
	if n, err := w.qp.PostSend(wrs); n != len(wrs) || err != nil {
		t.Fatal(n, err)
	}
}

// take returns the oldest send as the kernel finds it.
func (w *world) take(t testing.TB) fakerxe.Send {
	t.Helper()
	s, ok := fakerxe.QPOf(w.kqp).TakeSend()
	if !ok {
		t.Fatal("nothing was sent")
	}
	return s
}

func second[T any](_ T, err error) error { return err }
