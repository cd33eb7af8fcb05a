package uverbs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// hardware is a provider that keeps a page for the whole device and allocates its queues before the
// kernel's call. It fails at a chosen step.
type hardware struct{ giveUp *string }

var errGaveUp = errors.New("gave up")

func (hardware) ID() verbs.DriverID    { return verbs.DriverQEDR }
func (hardware) ABI() (uint32, uint32) { return 0, 9 }

func (h hardware) step(name string) error {
	if *h.giveUp == name {
		return errGaveUp
	}
	return nil
}

func (h hardware) Open(r *driver.Open) (driver.Context, error) {
	return h, h.create("context", r.Call)
}

func (h hardware) create(name string, r driver.Call) error {
	if _, err := r.Alloc(4096, nil); err != nil {
		return err
	}
	if err := h.step("before " + name); err != nil {
		return err
	}
	if *h.giveUp == "instead of "+name {
		return nil
	}
	if err := r.Do(driver.UHW{}); err != nil {
		return err
	}
	return h.step("after " + name)
}

func (h hardware) CreateCQ(r *driver.CreateCQ) (driver.CQ, error) { return idle{}, h.create("CQ", r) }
func (h hardware) CreateQP(r *driver.CreateQP) (driver.QP, error) { return idle{}, h.create("QP", r) }
func (h hardware) CreateSRQ(r *driver.CreateSRQ) (driver.SRQ, error) {
	return idle{}, h.create("SRQ", r)
}
func (h hardware) AllocPD(r *driver.AllocPD) (any, error)   { return idle{}, h.create("PD", r) }
func (h hardware) RegMR(r *driver.RegMR) error              { return h.create("MR", r) }
func (h hardware) AllocMW(r *driver.AllocMW) error          { return h.create("MW", r) }
func (h hardware) CreateAH(r *driver.CreateAH) (any, error) { return idle{}, h.create("AH", r) }

type idle struct{}

func (idle) Poll([]verbs.WC) (int, bool, error)   { return 0, false, nil }
func (idle) Arm(bool) error                       { return nil }
func (idle) PostSend([]verbs.SendWR) (int, error) { return 0, nil }
func (idle) PostRecv([]verbs.RecvWR) (int, error) { return 0, nil }

// TestProviderGivesUp checks that both halves of an object are destroyed, and its parents can be
// closed, if a provider fails before or after the kernel's call.
func TestProviderGivesUp(t *testing.T) {
	var giveUp string
	driver.Register(hardware{&giveUp})
	info := uverbs.DeviceInfo{Name: "qedr0", Driver: verbs.DriverQEDR}
	for _, when := range []string{"before ", "after ", "instead of "} {
		k := fakeverbs.New(uint32(verbs.DriverQEDR))
		noLeaks(t, k)
		giveUp = when + "context"
		if dev, err := openOn(info, k); dev != nil || err == nil || !strings.Contains(err.Error(), "open device on qedr0") {
			t.Error(err)
		}
	}
	giveUp = ""
	k := fakeverbs.New(uint32(verbs.DriverQEDR))
	noLeaks(t, k)
	dev := must[*uverbs.Device](t)(openOn(info, k))
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	cq := must[*uverbs.CQ](t)(dev.CreateCQ(1, nil))
	create := map[string]func() error{
		"PD":  func() error { return closing(dev.AllocPD()) },
		"MR":  func() error { return closing(pd.AllocMR(1, 0, nil)) },
		"MW":  func() error { return closing(pd.AllocMW(verbs.MWType1)) },
		"AH":  func() error { return closing(pd.CreateAH(&verbs.AHAttr{Global: true, DGID: fakeverbs.GID, Port: 1})) },
		"CQ":  func() error { return closing(dev.CreateCQ(1, nil)) },
		"SRQ": func() error { return closing(pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1})) },
		"QP":  func() error { return closing(pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq})) },
	}
	for name, f := range create {
		for _, when := range []string{"before ", "after ", "instead of "} {
			alive, live := k.Alive(), regions.Live()
			giveUp = when + name
			err := f()
			if giveUp == "instead of AH" {
				if err != nil { // an AH may be all in user space
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), "create "+name+" on qedr0") {
				t.Errorf("%s: %v", giveUp, err)
			}
			if !slices.Equal(k.Alive(), alive) || regions.Live() != live {
				t.Errorf("%s: %q and %d regions, before %q and %d", giveUp, k.Alive(), regions.Live(), alive, live)
			}
		}
	}
	for _, c := range []closer{cq, pd, dev} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
