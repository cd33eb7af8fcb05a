package uverbs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
)

// hardware is a provider of the other kind: it keeps a page for the whole device
// and allocates its queues before the kernel hears of them. It gives up when told.
type hardware struct{ giveUp *string }

var errGaveUp = errors.New("gave up")

func (hardware) DriverID() uverbs.DriverID { return uverbs.DriverEFA }
func (hardware) ABI() (uint32, uint32)     { return 0, 9 }

func (h hardware) step(name string) error {
	if *h.giveUp == name {
		return errGaveUp
	}
	return nil
}

func (h hardware) OpenContext(r *uverbs.ContextRequest) (uverbs.ProviderContext, error) {
	if _, err := r.Alloc(4096); err != nil {
		return nil, err
	}
	if err := r.Create(uverbs.UHW{}); err != nil {
		return nil, err
	}
	return h, h.step("context")
}

type request interface {
	Alloc(int) (*mmap.Region, error)
	Create(uverbs.UHW) error
}

func (h hardware) create(name string, r request) error {
	if _, err := r.Alloc(4096); err != nil {
		return err
	}
	if err := h.step("before " + name); err != nil {
		return err
	}
	if err := r.Create(uverbs.UHW{In: make([]byte, 16), Out: make([]byte, 4)}); err != nil {
		return err
	}
	return h.step("after " + name)
}

func (h hardware) CreateCQ(r *uverbs.CQRequest) (uverbs.CQRing, error) {
	return idle{}, h.create("CQ", r)
}
func (h hardware) CreateQP(r *uverbs.QPRequest) (uverbs.QPRing, error) {
	return idle{}, h.create("QP", r)
}
func (h hardware) CreateSRQ(r *uverbs.SRQRequest) (uverbs.SRQRing, error) {
	return idle{}, h.create("SRQ", r)
}
func (h hardware) RegMR(r *uverbs.MRRequest) error { return r.Create(uverbs.UHW{}) }
func (h hardware) CreateAH(r *uverbs.AHRequest) (any, error) {
	return idle{}, h.create("AH", r)
}

type idle struct{}

func (idle) Poll([]uverbs.WC) (int, bool, error)            { return 0, false, nil }
func (idle) Arm(bool) error                                 { return nil }
func (idle) PostSend([]uverbs.SendWR) (int, error)          { return 0, nil }
func (idle) PostRecv([]uverbs.RecvWR) (int, error)          { return 0, nil }
func (idle) Fail()                                          {}
func (idle) Move(_ uverbs.QPState, move func() error) error { return move() }
func (idle) Resize(r *uverbs.CQRequest) error               { return r.Create(uverbs.UHW{}) }
func (idle) Modify(r *uverbs.SRQModifyRequest) error {
	return r.Create(uverbs.UHW{})
}

// TestProviderGivesUp has a provider fail before and after the kernel made the
// object: both halves go, and the parents can be closed.
func TestProviderGivesUp(t *testing.T) {
	var giveUp string
	uverbs.Register(hardware{&giveUp})
	info := uverbs.DeviceInfo{Name: "efa0", Driver: uverbs.DriverEFA}
	t.Run("context", func(t *testing.T) {
		k := fakeverbs.New(uint32(uverbs.DriverEFA))
		noLeaks(t, k)
		giveUp = "context"
		if _, err := uverbs.NewDevice(info, k); !errors.Is(err, errGaveUp) {
			t.Error(err)
		}
	})
	giveUp = ""
	k := fakeverbs.New(uint32(uverbs.DriverEFA))
	noLeaks(t, k)
	dev := must[*uverbs.Device](t)(uverbs.NewDevice(info, k))
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	cq := must[*uverbs.CQ](t)(dev.CreateCQ(1, nil))
	create := map[string]func() error{
		"CQ":  func() error { return closing(dev.CreateCQ(1, nil)) },
		"SRQ": func() error { return closing(pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1})) },
		"QP":  func() error { return closing(pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq})) },
	}
	for name, f := range create {
		for _, when := range []string{"before ", "after "} {
			alive, live := k.Alive(), mmap.Live()
			giveUp = when + name
			if err := f(); err == nil || !strings.Contains(err.Error(), "create "+name+" on efa0") {
				t.Errorf("%s: %v", giveUp, err)
			}
			if !slices.Equal(k.Alive(), alive) || mmap.Live() != live {
				t.Errorf("%s: %q and %d regions, before %q and %d", giveUp, k.Alive(), mmap.Live(), alive, live)
			}
		}
	}
	for _, c := range []closer{cq, pd, dev} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
