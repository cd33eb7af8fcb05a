package mlx5

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/internal/providertest"
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

// world is a QP and the objects that it needs, on the model of the device. The test plays
// the device: it takes sends and receives, and chooses how they complete.
type world struct {
	k   *fakeverbs.Kernel
	dev *uverbs.Device
	pd  *uverbs.PD
	ch  *uverbs.CompChannel
	cq  *uverbs.CQ
	mr  *uverbs.MR
	qp  *uverbs.QP
	kqp *fakeverbs.QP
	kcq *fakeverbs.CQ

	extra []*uverbs.MR
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
	live := mmap.Live()
	w := &world{k: k}
	opts := &uverbs.QPOptions{Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: maxSGE, MaxRecvSGE: 3}}
	if change != nil {
		change(k, opts)
	}
	w.dev = must[*uverbs.Device](t)(openOn(info, k))
	w.pd = must[*uverbs.PD](t)(w.dev.AllocPD())
	w.ch = must[*uverbs.CompChannel](t)(w.dev.CreateCompChannel())
	cq.Channel = w.ch
	w.cq = must[*uverbs.CQ](t)(w.dev.CreateCQ(7, &cq))
	w.mr = must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
	opts.SendCQ, opts.RecvCQ = w.cq, w.cq
	w.qp = must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	w.kqp, w.kcq = k.QueuePairs()[0], k.CQs()[0]
	providertest.Bring(t, w.qp)
	t.Cleanup(func() {
		for _, mr := range w.extra {
			if err := mr.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, c := range []interface{ Close() error }{w.qp, w.mr, w.cq, w.ch, w.pd, w.dev} {
			if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
		if leaks := k.Leaks(); len(leaks) > 0 || mmap.Live() != live {
			t.Errorf("the kernel still has %q; %d regions live, %d at the start", leaks, mmap.Live(), live)
		}
		for _, v := range k.Violations() {
			t.Error("violation:", v)
		}
	})
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
	return wcs[:must[int](t)(w.cq.Poll(wcs))]
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

// openOn opens a device on a fake kernel.
func openOn(info uverbs.DeviceInfo, file ioctl.File) (*uverbs.Device, error) {
	info.Node = kernel.Node(file)
	return info.Open()
}
