package uverbs_test

import (
	"runtime"
	"testing"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// orderly is a driver whose device writes messages in order, and reads by blocks.
type orderly struct{ hardware }

func (orderly) ID() verbs.DriverID { return verbs.DriverMANA }

func (o orderly) Open(r *driver.Open) (driver.Context, error) {
	return o, r.Do(driver.UHW{})
}

func (o orderly) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	return orderlyQP{}, r.Do(driver.UHW{})
}

type orderlyQP struct{ idle }

func (orderlyQP) DataOrder(op verbs.Opcode) verbs.DataOrder {
	switch op {
	case verbs.OpRDMAWrite:
		return verbs.DataOrderWholeMessage
	case verbs.OpRDMARead:
		return verbs.DataOrderAligned128
	}
	return 0
}

func TestDataOrder(t *testing.T) {
	var giveUp string
	driver.Register(orderly{hardware{&giveUp}})
	k := fakeverbs.New(uint32(verbs.DriverMANA))
	dev := must[*uverbs.Device](t)(openOn(uverbs.DeviceInfo{Name: "mana0", Driver: verbs.DriverMANA}, k))
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	cq := must[*uverbs.CQ](t)(dev.CreateCQ(1, nil))
	qp := must[*uverbs.QP](t)(pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq}))
	for op, want := range map[verbs.Opcode]string{verbs.OpRDMAWrite: "WholeMessage|Aligned128", verbs.OpRDMARead: "Aligned128", verbs.OpSend: "0"} {
		if runtime.GOARCH != "amd64" {
			want = "0"
		}
		if got := qp.DataOrder(op).String(); got != want {
			t.Errorf("%v: %s, want %s", op, got, want)
		}
	}
	closeAll(t, qp, cq, pd, dev)
}
