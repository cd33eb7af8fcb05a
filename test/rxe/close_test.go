//go:build vm

package rxe

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeManyPDs creates and closes many PDs.
func TestRxeManyPDs(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	var pds [200]*uverbs.PD
	for range 3 {
		for i := range pds {
			pds[i] = kit.Must(d.AllocPD())(t)
		}
		for _, pd := range pds {
			if err := pd.Close(); err != nil {
				t.Error(err)
			}
			if err := pd.Close(); !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
	}
}

// TestRxeCloseOrder checks that an object in use does not close, and the error names its users; one that is closed
// closes no second time, and is of no more use.
func TestRxeCloseOrder(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	dev := kit.Must(uverbs.Open(kit.RxeLink))(t)
	pd := kit.Must(dev.AllocPD())(t)
	channel := kit.Must(dev.CreateCompChannel())(t)
	cq := kit.Must(dev.CreateCQ(16, &uverbs.CQOptions{Channel: channel}))(t)
	srq := kit.Must(pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(t)
	opts := uverbs.QPOptions{Type: verbs.QPTypeUD, SendCQ: cq, RecvCQ: cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}}
	qp := kit.Must(pd.CreateQP(&opts))(t)
	mr := kit.Must(pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessMWBind, nil))(t)
	mw := kit.Must(pd.AllocMW(verbs.MWType1))(t)
	gid := kit.Must(dev.ChooseGID(1, nil))(t)
	ah := kit.Must(pd.CreateAH(&verbs.AHAttr{Global: true, DGID: gid.GID, SGIDIndex: gid.Index, Port: 1}))(t)
	more := [3]*uverbs.PD{}
	for i := range more {
		more[i] = kit.Must(dev.AllocPD())(t)
	}
	busy := func(object interface{ Close() error }, holders string) {
		t.Helper()
		err := object.Close()
		if !errors.Is(err, verbs.ErrInUse) || !strings.HasSuffix(kit.Number.ReplaceAllString(err.Error(), "$1"), ": in use: close "+holders+" first") {
			t.Errorf("%v\nwant %s", err, holders)
		}
	}
	group := verbs.GIDFromAddr(netip.MustParseAddr("239.83.0.3"))
	number := fmt.Sprint("QP ", qp.QPN())
	busy(pd, "AH, MR, MW, "+number+", SRQ")
	busy(channel, "CQ")
	busy(cq, number)
	busy(srq, number)
	busy(dev, "CQ, PD, PD, PD, PD, completion channel")
	if err := qp.AttachMcast(group, 0); err != nil {
		t.Error(err)
	}
	if err := qp.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("attached: %v", err)
	}
	if err := qp.DetachMcast(group, 0); err != nil {
		t.Error(err)
	}
	for _, object := range []interface{ Close() error }{qp, ah, mw, mr, srq, cq, channel, pd, more[1], more[0], more[2], dev} {
		if err := object.Close(); err != nil {
			t.Errorf("%T: %v", object, err)
		}
		if err := object.Close(); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%T again: %v", object, err)
		}
	}
	opts.SRQ = nil
	for what, use := range map[string]func() error{
		"PD.RegMR":           func() error { _, err := pd.RegMR(make([]byte, 8), 0); return err },
		"PD.AllocMR":         func() error { _, err := pd.AllocMR(8, 0, nil); return err },
		"PD.AllocMW":         func() error { _, err := pd.AllocMW(verbs.MWType1); return err },
		"PD.CreateQP":        func() error { _, err := pd.CreateQP(&opts); return err },
		"PD.CreateSRQ":       func() error { _, err := pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}); return err },
		"PD.CreateAH":        func() error { _, err := pd.CreateAH(&verbs.AHAttr{Global: true, DGID: gid.GID, Port: 1}); return err },
		"Device.AllocPD":     func() error { _, err := dev.AllocPD(); return err },
		"Device.QueryDevice": func() error { _, err := dev.QueryDevice(); return err },
		"CQ.Poll":            func() error { _, err := cq.Poll(make([]verbs.WC, 1)); return err },
		"CQ.Arm":             func() error { return cq.Arm(false) },
		"CQ.Resize":          func() error { return cq.Resize(32) },
		"QP.PostSend":        func() error { _, err := qp.PostSend(make([]verbs.SendWR, 1)); return err },
		"QP.Query":           func() error { _, err := qp.Query(); return err },
		"QP.AttachMcast":     func() error { return qp.AttachMcast(group, 0) },
		"SRQ.PostRecv":       func() error { _, err := srq.PostRecv(make([]verbs.RecvWR, 1)); return err },
		"SRQ.Resize":         func() error { return srq.Resize(8) },
		"SRQ.SetLimit":       func() error { return srq.SetLimit(1) },
		"MR.Rereg":           func() error { return mr.Rereg(&uverbs.ReregOptions{}) },
		"MW.Bind":            func() error { return mw.Bind(qp, 1, 0, verbs.BindMW{}) },
	} {
		if err := use(); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
