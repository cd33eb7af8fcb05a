package uverbs_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// walk does with a device all that there is a hook for, and returns the first error. It
// closes what it made, twice when the first time fails.
func (w *spyWorld) walk() (err error) {
	try := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	var opened []closer
	made := func(c closer, e error) {
		if err = e; e == nil {
			opened = append(opened, c)
		}
	}
	defer func() {
		for _, c := range slices.Backward(opened) {
			if e := c.Close(); e != nil {
				err = errors.Join(err, e, c.Close())
			}
		}
	}()
	dev, e := openOn(spyInfo, w.file)
	if made(dev, e); e != nil {
		return e
	}
	pd, e := dev.AllocPD()
	if made(pd, e); e != nil {
		return e
	}
	for _, f := range []func() (closer, error){
		func() (closer, error) { return pd.AllocMR(4096, 0, nil) },
		func() (closer, error) { return pd.AllocMW(verbs.MWType2) },
		func() (closer, error) {
			return pd.CreateAH(&verbs.AHAttr{Global: true, DGID: fakeverbs.GID, Port: 1})
		},
	} {
		try(func() error { made(f()); return err })
	}
	if err != nil {
		return err
	}
	srq, e := pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4})
	if made(srq, e); e != nil {
		return e
	}
	ch, e := dev.CreateCompChannel()
	if made(ch, e); e != nil {
		return e
	}
	cq, e := dev.CreateCQ(16, &uverbs.CQOptions{Channel: ch})
	if made(cq, e); e != nil {
		return e
	}
	qp, e := pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4}})
	if made(qp, e); e != nil {
		return e
	}
	wcs := make([]verbs.WC, 8)
	for _, f := range []func() error{
		func() error { return srq.SetLimit(1) },
		func() error { return failed(srq.PostRecv(make([]verbs.RecvWR, 1))) },
		func() error { return cq.Resize(8) },
		func() error { return cq.Arm(false) },
		func() error { return qp.Init(nil) },
		func() error { return failed(qp.PostSend(make([]verbs.SendWR, 1))) },
		func() error { return failed(qp.PostRecv(make([]verbs.RecvWR, 1))) },
		func() error { return failed(cq.Poll(wcs)) },
		func() error { w.file.CQs()[0].Event(); return failed(ch.Get(context.Background())) },
		func() error { return qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState) },
		func() error { return failed(qp.PostRecv(make([]verbs.RecvWR, 1))) },
		func() error { return qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState) },
	} {
		try(f)
	}
	return err
}

// TestDriverHooks walks through everything once: each hook is called, the bytes of each
// call reach the kernel and come back, and each store to the device is seen.
func TestDriverHooks(t *testing.T) {
	w := &spyWorld{}
	w.spy, w.file = newSpy(t, false)
	if err := w.walk(); err != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{
		"after open", "after PD", "after MR", "after MW", "after AH", "after SRQ", "after CQ", "after QP", "after modify",
		"after srq modify", "after resize", "srq recv", "arm", "send", "recv", "poll", "event", "fail", "clean",
		"RESET to INIT", "INIT to ERR", "ERR to ERR", "ERR to RESET",
		"destroy PD", "destroy AH", "destroy SRQ", "destroy CQ", "destroy QP", "close",
	} {
		if w.counts[hook] == 0 {
			t.Errorf("%s: never", hook)
		}
	}
	if len(w.stores) != 1 || w.stores[0].Kind != mmap.StorePlain || w.stores[0].Offset != 64 || w.stores[0].Value != 1 || w.uar != 42 {
		t.Errorf("stores %+v to page %d", w.stores, w.uar)
	}
	if w.attr == nil || w.attr.MaxQP != fakeverbs.MaxQP {
		t.Errorf("%+v", w.attr)
	}
}

// TestDriverHookFails has each hook fail once: the user hears of it, the walk's second
// attempt works, and nothing is left behind.
func TestDriverHookFails(t *testing.T) {
	all := &spyWorld{}
	all.spy, all.file = newSpy(t, false)
	if err := all.walk(); err != nil {
		t.Fatal(err)
	}
	silent := map[string]bool{"event": true, "fail": true, "clean": true} // return no error
	for _, hook := range slices.Sorted(maps.Keys(all.counts)) {
		if silent[hook] || strings.Contains(hook, " to ") {
			continue
		}
		t.Run(hook, func(t *testing.T) {
			live := mmap.Live()
			w := &spyWorld{}
			w.spy, w.file = newSpy(t, false)
			w.fail = hook
			if err := w.walk(); !errors.Is(err, errSpy) {
				t.Errorf("the walk says %v", err)
			}
			if mmap.Live() != live {
				t.Errorf("%d regions live, %d before", mmap.Live(), live)
			}
		})
	}
}

// TestDriverDevice is what a provider can ask of a device apart from objects.
func TestDriverDevice(t *testing.T) {
	w := newSpyWorld(t, false)
	d := w.device
	if i := d.Info(); i != (driver.Info{Name: "spy0", Ports: 1}) {
		t.Errorf("%+v", i)
	}
	if e, err := d.GID(1, 0); err != nil || e.GID != fakeverbs.GID {
		t.Errorf("%v, %v", e, err)
	}
	pd := must[uint32](t)(d.AllocPD(driver.UHW{}))
	queue := must[*mmap.Region](t)(d.Alloc(4096, nil))
	mr := must[uint32](t)(d.RegisterQueue(pd, queue, driver.UHW{In: make([]byte, 8)}))
	if got := w.file.MRs()[0]; got.Start != queue.Addr() || got.Length != 4096 || got.PD != pd {
		t.Errorf("%+v", got)
	}
	if err := errors.Join(d.DeregisterQueue(mr), d.DeallocPD(pd), d.Free(queue)); err != nil {
		t.Error(err)
	}
	if err := d.Free(queue); err == nil {
		t.Error("freed twice")
	}
	if err := d.Invoke(spyObject, 0x1001); !errors.Is(err, errSpy) {
		t.Error(err)
	}
}
