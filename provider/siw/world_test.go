package siw

import (
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
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
	qp   *uverbs.QP
	kqp  *fakeverbs.QP
	kcq  *fakeverbs.CQ
	ksrq *fakeverbs.SRQ
}

const depth = 4 // of each work queue

var info = uverbs.DeviceInfo{Name: "siw0", Driver: verbs.DriverSIW, ABI: 1}

func newWorld(t testing.TB, change func(*uverbs.QPOptions)) *world {
	t.Helper()
	k := fakeverbs.New(uint32(verbs.DriverSIW))
	w := &world{k: k}
	end := providertest.Endpoint(t, info, k, &uverbs.EndpointOptions{SendCQEntries: 4 * depth})
	w.dev, w.pd, w.cq = end.PD.Device(), end.PD, end.SendCQ
	w.srq = providertest.Must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: depth, MaxSGE: 2}))
	opts := &uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 3, MaxRecvSGE: 3}}
	if change != nil {
		opts.SRQ = nil
		change(opts)
	}
	w.qp = providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	w.kqp, w.kcq, w.ksrq = k.QueuePairs()[0], k.CQs()[0], k.SRQs()[0]
	return w
}

// connected returns a world whose QP accepted its first doorbell.
func connected(t testing.TB) *world {
	w := newWorld(t, nil)
	w.kqp.Connect(16, 16)
	if _, err := w.qp.PostSend(nil); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) poll(t testing.TB) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 64)
	return wcs[:providertest.Must[int](t)(w.cq.Poll(wcs))]
}
