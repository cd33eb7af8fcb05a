package siw

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// world is a QP and the objects that it needs, on the fake kernel.
type world struct {
	k    *fakeverbs.Kernel
	dev  *uverbs.Device
	pd   *uverbs.PD
	ch   *uverbs.CompChannel
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
	live := mmap.Live()
	w := &world{k: k}
	w.dev = must[*uverbs.Device](t)(openOn(info, k))
	w.pd = must[*uverbs.PD](t)(w.dev.AllocPD())
	w.ch = must[*uverbs.CompChannel](t)(w.dev.CreateCompChannel())
	w.cq = must[*uverbs.CQ](t)(w.dev.CreateCQ(4*depth, &uverbs.CQOptions{Channel: w.ch}))
	w.srq = must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: depth, MaxSGE: 2}))
	opts := &uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 3, MaxRecvSGE: 3}}
	if change != nil {
		opts.SRQ = nil
		change(opts)
	}
	w.qp = must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	w.kqp, w.kcq, w.ksrq = k.QueuePairs()[0], k.CQs()[0], k.SRQs()[0]
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{w.qp, w.srq, w.cq, w.ch, w.pd, w.dev} {
			if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
		if leaks := k.Leaks(); len(leaks) > 0 || mmap.Live() != live {
			t.Errorf("the kernel still has %q; %d regions live, %d at the start", leaks, mmap.Live(), live)
		}
	})
	return w
}

// connected returns a world whose QP accepted its first doorbell.
func connected(t testing.TB) *world {
	w := newWorld(t, nil)
	w.kqp.Connect()
	if _, err := w.qp.PostSend(nil); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) poll(t testing.TB) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 64)
	return wcs[:must[int](t)(w.cq.Poll(wcs))]
}

// openOn opens a device on a fake kernel.
func openOn(info uverbs.DeviceInfo, file ioctl.File) (*uverbs.Device, error) {
	info.Node = kernel.Node(file)
	return info.Open()
}
