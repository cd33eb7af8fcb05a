package uverbs_test

import (
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// hollow is a driver of hardware that has every object and no queues: the calls for objects
// that no driver in software has need one.
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

// CreateRSSQP passes the hash on in a way of its own.
func (hollow) CreateRSSQP(r *driver.CreateRSSQP) error {
	return r.Do(driver.UHW{In: append([]byte{byte(r.Hash.Function), byte(r.Hash.Fields)}, r.Hash.Key...)})
}

func (hollow) AllocDM(r *driver.AllocDM) (driver.DM, error) {
	return hollowMemory(make([]byte, r.Length)), r.Do(driver.UHW{})
}

// hollowMemory is reached in words.
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

// CreateFlow passes on what is counted.
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

// hard is a world of such a device.
type hard struct {
	k   *fakeverbs.Kernel
	dev *uverbs.Device
	pd  *uverbs.PD
	cq  *uverbs.CQ
}

func (w *hard) kernel() *fakeverbs.Kernel { return w.k }

func newHard(t testing.TB) *hard { return hardOn(t, fakeverbs.NewDevice(uint32(hollow0.Driver))) }

// hardOn is another opening of a device.
func hardOn(t testing.TB, d *fakeverbs.Device) *hard {
	t.Helper()
	w := &hard{k: d.Open()}
	w.dev = openWith(t, w.k, hollow0)
	w.pd = must[*uverbs.PD](t)(w.dev.AllocPD())
	w.cq = must[*uverbs.CQ](t)(w.dev.CreateCQ(16, nil))
	t.Cleanup(func() { closeAll(t, w.cq, w.pd) })
	return w
}
