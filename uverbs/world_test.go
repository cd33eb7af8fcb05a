package uverbs_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/internal/regions"
	_ "github.com/goverbs/goverbs/provider/rxe"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var (
	siw0 = uverbs.DeviceInfo{Name: "siw0", Index: 3, Driver: verbs.DriverSIW, ABI: 1, NodeType: verbs.NodeRNIC, Ports: 1}
	rxe0 = uverbs.DeviceInfo{Name: "rxe0", Index: 4, Driver: verbs.DriverRXE, ABI: 2, NodeType: verbs.NodeCA, Ports: 1}
)

// world is a device with one object of each kind that all devices support.
type world struct {
	k       *fakeverbs.Kernel
	dev     *uverbs.Device
	pd      *uverbs.PD
	mr      *uverbs.MR
	channel *uverbs.CompChannel
	cq      *uverbs.CQ
	srq     *uverbs.SRQ
	qp      *uverbs.QP
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// noLeaks fails the test if an object of k, or a region, is still open at its end.
func noLeaks(t testing.TB, k *fakeverbs.Kernel) {
	live := regions.Live()
	t.Cleanup(func() {
		if leaks := k.Leaks(); len(leaks) > 0 {
			t.Errorf("the kernel still has %q", leaks)
		}
		if n := regions.Live(); n != live {
			t.Errorf("%d regions live, %d at the start", n, live)
		}
	})
}

func openSIW(t testing.TB) (*fakeverbs.Kernel, *uverbs.Device) { return open(t, siw0) }

// open opens a device that is closed at the test's end, and checked for leaks.
func open(t testing.TB, info uverbs.DeviceInfo) (*fakeverbs.Kernel, *uverbs.Device) {
	t.Helper()
	k := fakeverbs.New(uint32(info.Driver))
	return k, openWith(t, k, info)
}

func openWith(t testing.TB, k *fakeverbs.Kernel, info uverbs.DeviceInfo) *uverbs.Device {
	t.Helper()
	noLeaks(t, k)
	dev := must[*uverbs.Device](t)(openOn(info, k))
	t.Cleanup(func() {
		if err := dev.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
	})
	return dev
}

// newWorld returns a world of siw. newRoCE returns one of rxe.
func newWorld(t testing.TB) *world { return worldOn(t, siw0) }

func worldOn(t testing.TB, info uverbs.DeviceInfo) *world {
	t.Helper()
	k := fakeverbs.New(uint32(info.Driver))
	return worldIn(t, k, openWith(t, k, info))
}

// newBubbleWorld returns a world of siw for a bubble of testing/synctest.
func newBubbleWorld(t testing.TB) *world { return bubbleWorldOn(t, siw0) }

func bubbleWorldOn(t testing.TB, info uverbs.DeviceInfo) *world {
	t.Helper()
	k := bubbleKernel(info)
	return worldIn(t, k, openWith(t, k, info))
}

func bubbleKernel(info uverbs.DeviceInfo) *fakeverbs.Kernel {
	k := fakeverbs.New(uint32(info.Driver))
	k.InBubble = true
	return k
}

func worldIn(t testing.TB, k *fakeverbs.Kernel, dev *uverbs.Device) *world {
	t.Helper()
	w := &world{k: k, dev: dev}
	w.pd = must[*uverbs.PD](t)(dev.AllocPD())
	w.mr = must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
	w.channel = must[*uverbs.CompChannel](t)(dev.CreateCompChannel())
	w.cq = must[*uverbs.CQ](t)(dev.CreateCQ(16, &uverbs.CQOptions{Channel: w.channel}))
	w.srq = must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))
	w.qp = must[*uverbs.QP](t)(w.pd.CreateQP(w.qpOptions()))
	t.Cleanup(func() { w.close(t) })
	return w
}

func (w *world) qpOptions() *uverbs.QPOptions {
	return &uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2}}
}

// kqp and kcq are the kernel's sides of qp and cq.
func (w *world) kqp() *fakeverbs.QP { return w.k.QueuePairs()[0] }
func (w *world) kcq() *fakeverbs.CQ { return w.k.CQs()[0] }

func (w *world) kernel() *fakeverbs.Kernel { return w.k }

// close closes all objects that the test has not closed, children first.
func (w *world) close(t testing.TB) { closeAll(t, w.qp, w.srq, w.cq, w.channel, w.mr, w.pd) }

func closeAll(t testing.TB, all ...closer) {
	t.Helper()
	for _, c := range all {
		if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
	}
}

// openOn opens a device on a fake kernel.
func openOn(info uverbs.DeviceInfo, file ioctl.File) (*uverbs.Device, error) {
	info.Node = kernel.Node(file)
	return info.Open()
}

// hollow is a provider of hardware that supports every object but has no queues. Tests of objects that
// no software driver has need it.
type hollow struct{}

func init() { driver.Register(hollow{}) }

var hollow0 = uverbs.DeviceInfo{Name: "hollow0", Index: 5, Driver: verbs.DriverHFI1, NodeType: verbs.NodeCA, Ports: 1}

func (hollow) ID() verbs.DriverID                          { return verbs.DriverHFI1 }
func (hollow) ABI() (lowest, highest uint32)               { return 0, 9 }
func (hollow) Open(r *driver.Open) (driver.Context, error) { return hollow{}, r.Do(driver.UHW{}) }

func (hollow) CreateCQ(r *driver.CreateCQ) (driver.CQ, error) {
	return hollowQueue{}, r.Do(driver.UHW{})
}
func (hollow) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	return hollowQueue{}, r.Do(driver.UHW{})
}
func (hollow) CreateSRQ(r *driver.CreateSRQ) (driver.SRQ, error) {
	return hollowQueue{}, r.Do(driver.UHW{})
}
func (hollow) CreateXRCSRQ(r *driver.CreateXRCSRQ) (driver.SRQ, error) {
	return hollowQueue{}, r.Do(driver.UHW{})
}

func (hollow) CreateWQ(r *driver.CreateWQ) (driver.WQ, error) {
	return hollowQueue{}, r.Do(driver.UHW{})
}

// CreateRSSQP passes the hash on in private bytes.
func (hollow) CreateRSSQP(r *driver.CreateRSSQP) error {
	return r.Do(driver.UHW{In: append([]byte{byte(r.Hash.Function), byte(r.Hash.Fields)}, r.Hash.Key...)})
}

func (hollow) AllocDM(r *driver.AllocDM) (driver.DM, error) {
	return hollowMemory(make([]byte, r.Length)), r.Do(driver.UHW{})
}

// hollowMemory can be accessed in words only.
type hollowMemory []byte

func (m hollowMemory) CopyTo(offset uint64, b []byte) error {
	if (offset|uint64(len(b)))%4 != 0 {
		return syscall.EINVAL
	}
	copy(m[offset:], b)
	return nil
}

func (m hollowMemory) CopyFrom(b []byte, offset uint64) error {
	copy(b, m[offset:])
	return nil
}

// CreateFlow passes the kinds of the counters on.
func (hollow) CreateFlow(r *driver.CreateFlow) error {
	var in []byte
	for _, p := range r.Counters {
		in = append(in, byte(p.Counts), byte(p.Index))
	}
	return r.Do(driver.UHW{In: in})
}

type hollowQueue struct{}

func (hollowQueue) Poll([]verbs.WC) (n int, bad bool, err error) { return 0, false, nil }
func (hollowQueue) Arm(bool) error                               { return nil }
func (hollowQueue) PostSend(wrs []verbs.SendWR) (int, error)     { return len(wrs), nil }
func (hollowQueue) PostRecv(wrs []verbs.RecvWR) (int, error)     { return len(wrs), nil }

// hard is a world of a hollow device.
type hard struct {
	k   *fakeverbs.Kernel
	dev *uverbs.Device
	pd  *uverbs.PD
	cq  *uverbs.CQ
}

func (w *hard) kernel() *fakeverbs.Kernel { return w.k }

func newHard(t testing.TB) *hard { return hardOn(t, fakeverbs.NewDevice(uint32(hollow0.Driver))) }

// hardOn opens a device once more.
func hardOn(t testing.TB, d *fakeverbs.Device) *hard {
	t.Helper()
	w := &hard{k: d.Open()}
	w.dev = openWith(t, w.k, hollow0)
	w.pd = must[*uverbs.PD](t)(w.dev.AllocPD())
	w.cq = must[*uverbs.CQ](t)(w.dev.CreateCQ(16, nil))
	t.Cleanup(func() { closeAll(t, w.cq, w.pd) })
	return w
}
