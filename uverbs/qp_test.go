package uverbs_test

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var hook = hooks.Get[*uverbs.QP, *uverbs.CQ]()

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

// newTwoCQs returns a QP with a small CQ for receives.
func newTwoCQs(t *testing.T, info uverbs.DeviceInfo) (w *world, recvCQ *uverbs.CQ, qp *uverbs.QP) {
	t.Helper()
	w = worldOn(t, info)
	recvCQ = must[*uverbs.CQ](t)(w.dev.CreateCQ(4, nil))
	opts := w.qpOptions()
	opts.RecvCQ = recvCQ
	qp = must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	t.Cleanup(func() { closeAll(t, qp, recvCQ) })
	return w, recvCQ, qp
}

// Posts to a failed QP complete on their own CQ, and are limited by its room.
func TestFlushOnTwoCQs(t *testing.T) {
	w, recvCQ, qp := newTwoCQs(t, siw0)
	toError(t, qp)
	for _, c := range []struct {
		name string
		cq   *uverbs.CQ
		post func(n int) (int, error)
	}{
		{"receives", recvCQ, func(n int) (int, error) { return qp.PostRecv(make([]verbs.RecvWR, n)) }},
		{"sends", w.cq, func(n int) (int, error) { return qp.PostSend(make([]verbs.SendWR, n)) }},
	} {
		n, err := c.post(1000)
		if n != c.cq.Cap() || !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("%s: %d posted, %v; the CQ has room for %d", c.name, n, err, c.cq.Cap())
		}
		wcs := make([]verbs.WC, 1000)
		if got, err := c.cq.Poll(wcs); got != n || err != nil {
			t.Errorf("%s: %d completions of %d, %v", c.name, got, n, err)
		}
	}
}

// An SRQ can't be closed while a QP uses it.
func TestQPHoldsSRQ(t *testing.T) {
	w := newWorld(t)
	opts := w.qpOptions()
	opts.SRQ = w.srq
	qp := must[*uverbs.QP](t)(w.pd.CreateQP(opts))
	if err := w.srq.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error(err)
	}
	if err := errors.Join(qp.Close(), w.srq.Close()); err != nil {
		t.Error(err)
	}
}

// Resizing an SRQ leaves its limit alone.
func TestResizeKeepsLimit(t *testing.T) {
	w := worldOn(t, rxe0)
	if err := errors.Join(w.srq.SetLimit(2), w.srq.Resize(60)); err != nil {
		t.Fatal(err)
	}
	if attr := must[*verbs.SRQAttr](t)(w.srq.Query()); attr.Limit != 2 || attr.MaxWR != w.srq.MaxWR() || attr.MaxWR < 60 {
		t.Errorf("%+v, room for %d", attr, w.srq.MaxWR())
	}
}

func bad(qpn uint32, wrID uint64) verbs.WC {
	return verbs.WC{WRID: wrID, QPN: qpn, Status: verbs.StatusRetryExcErr}
}

func (w *spyWorld) pollAll(t *testing.T) (ids []uint64) {
	t.Helper()
	wcs := make([]verbs.WC, 16)
	for _, wc := range wcs[:must[int](t)(w.cq.Poll(wcs))] {
		ids = append(ids, wc.WRID)
	}
	return ids
}

// TestReusedNumber checks that earlier completions do not fail a new QP, and later ones do, if the
// kernel gives it a QP's number before Close of the old QP returns.
func TestReusedNumber(t *testing.T) {
	for _, cleaner := range []bool{false, true} {
		w := newSpyWorld(t, !cleaner)
		num := w.qp.QPN()
		w.cqs[0].push(bad(num, 1))
		var second *uverbs.QP
		w.file.destroyed = func() { second = w.newQP(t) }
		if err := w.qp.Close(); err != nil {
			t.Fatal(err)
		}
		if second.QPN() != num {
			t.Fatalf("number %d, want %d again", second.QPN(), num)
		}
		want := 1 // which is set aside
		if cleaner {
			want = 0
		}
		if got := w.pollAll(t); len(got) != want || w.count("flush") != 0 {
			t.Errorf("cleaner %v: polled %d, the new QP failed %d times", cleaner, got, w.count("flush"))
		}
		w.cqs[0].push(bad(num, 2))
		if got := w.pollAll(t); len(got) != 1 || w.count("flush") != 1 {
			t.Errorf("cleaner %v: polled %d, the new QP failed %d times", cleaner, got, w.count("flush"))
		}
		if w.table.Get(num) == nil {
			t.Error("the provider's table lost the new QP")
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestResetUnderPolling checks that a completion of the earlier generation does not fail a QP that is
// put into RESET while other goroutines poll.
func TestResetUnderPolling(t *testing.T) {
	for _, cleaner := range []bool{false, true} {
		w := newSpyWorld(t, !cleaner)
		stop := make(chan struct{})
		var pollers sync.WaitGroup
		for range 2 {
			pollers.Go(func() {
				for wcs := make([]verbs.WC, 4); ; {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := w.cq.Poll(wcs); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for i := range uint64(500) {
			w.cqs[0].push(verbs.WC{QPN: w.qp.QPN(), WRID: i})
			if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		pollers.Wait()
		if cleaned := w.count("clean") >= 500; cleaned != cleaner {
			t.Errorf("cleaner %v: cleaned %d times", cleaner, w.count("clean"))
		}
	}
}

// TestFailedReset checks that completions of the earlier generation do not fail the QP if the
// provider fails after the kernel's call: the new generation has begun.
func TestFailedReset(t *testing.T) {
	w := newSpyWorld(t, true)
	w.cqs[0].push(bad(w.qp.QPN(), 1))
	w.fail = "after modify"
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); !errors.Is(err, errSpy) {
		t.Fatal(err)
	}
	if got := w.pollAll(t); len(got) != 1 || w.count("flush") != 0 {
		t.Errorf("polled %d, failed %d times", got, w.count("flush"))
	}
}

// TestDestroyFails checks that if the kernel or the provider refuses to destroy a QP, it keeps
// working.
func TestDestroyFails(t *testing.T) {
	for _, refuse := range []func(w *spyWorld){
		func(w *spyWorld) { w.file.Fail("QP_DESTROY", 0, syscall.EBUSY) },
		func(w *spyWorld) { w.fail = "destroy QP" },
	} {
		w := newSpyWorld(t, false)
		w.cqs[0].push(bad(w.qp.QPN(), 1))
		refuse(w)
		if err := w.qp.Close(); err == nil {
			t.Fatal("closed")
		}
		if n := w.count("clean"); n != 0 || w.table.Get(w.qp.QPN()) == nil {
			t.Errorf("cleaned %d times, or forgotten", n)
		}
		if n, err := w.qp.PostSend(make([]verbs.SendWR, 2)); n != 2 || err != nil {
			t.Error(n, err)
		}
		if got := w.pollAll(t); len(got) != 1 || w.count("flush") != 1 {
			t.Errorf("polled %d, failed %d times", got, w.count("flush"))
		}
		if got := w.pollAll(t); len(got) != 2 { // flushed
			t.Errorf("polled %d", got)
		}
	}
}

// TestNoLockAcrossCalls checks that while a provider puts a QP into RESET or destroys an object,
// which may take long, other goroutines can use the objects that they share with it. Once the kernel
// has destroyed an object, the provider is not called for it again.
func TestNoLockAcrossCalls(t *testing.T) {
	w := newSpyWorld(t, false)
	srq := must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4}))
	cq := must[*uverbs.CQ](t)(w.dev.CreateCQ(16, &uverbs.CQOptions{Channel: w.ch}))
	qp := must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4}}))
	poll := func() error {
		return errors.Join(failed(cq.Poll(make([]verbs.WC, 1))), failed(w.cq.Poll(make([]verbs.WC, 1))))
	}
	post := func() error { return failed(srq.PostRecv(make([]verbs.RecvWR, 1))) }
	for _, c := range []struct {
		name       string
		call, use  func() error
		afterwards error // of use, after the kernel's call
	}{
		{"RESET", func() error { return qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState) }, poll, nil},
		{"QP", qp.Close, poll, nil},
		{"CQ", cq.Close, poll, net.ErrClosed},
		{"SRQ", srq.Close, post, net.ErrClosed},
	} {
		times := 0
		w.busy = func(done bool) {
			times++
			used := make(chan error, 1)
			go func() { used <- c.use() }()
			var want error
			if done {
				want = c.afterwards
			}
			select {
			case err := <-used:
				if !errors.Is(err, want) {
					t.Errorf("%s, after the kernel's call %v: %v, want %v", c.name, done, err, want)
				}
			case <-time.After(time.Minute):
				t.Errorf("%s, after the kernel's call %v: another goroutine waits for the provider", c.name, done)
			}
		}
		if err := c.call(); err != nil || times != 2 {
			t.Errorf("%s: %v, %d times", c.name, err, times)
		}
		w.busy = nil
	}
}

// TestArmWhileClosing checks that Arm waits for the result of Close. It arms a CQ that the kernel
// keeps.
func TestArmWhileClosing(t *testing.T) {
	for _, kept := range []bool{true, false} {
		w := newSpyWorld(t, false)
		cq := must[*uverbs.CQ](t)(w.dev.CreateCQ(16, &uverbs.CQOptions{Channel: w.ch}))
		if kept {
			w.file.Fail("CQ_DESTROY", 0, syscall.EBUSY)
		}
		armed := make(chan error, 1)
		w.busy = func(done bool) {
			if !done {
				go func() { armed <- cq.Arm(false) }()
			}
		}
		if err := cq.Close(); (err != nil) != kept {
			t.Fatal(err)
		}
		err := <-armed
		if kept && (err != nil || w.count("arm") != 1) || !kept && !errors.Is(err, net.ErrClosed) {
			t.Errorf("kept %v: %v, armed %d times", kept, err, w.count("arm"))
		}
		w.busy = nil
		if err := cq.Close(); (err == nil) != kept {
			t.Error(err)
		}
	}
}

// TestCQDestroyFails checks that a CQ that the kernel keeps can be polled.
func TestCQDestroyFails(t *testing.T) {
	w := newSpyWorld(t, false)
	cq := must[*uverbs.CQ](t)(w.dev.CreateCQ(1, nil))
	w.file.Fail("CQ_DESTROY", 0, syscall.EBUSY)
	if err := cq.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	if _, err := cq.Poll(make([]verbs.WC, 1)); err != nil {
		t.Error(err)
	}
	if err := cq.Close(); err != nil {
		t.Error(err)
	}
}

// TestTold checks that objects report their parents and options.
func TestTold(t *testing.T) {
	w := newWorld(t)
	if w.cq.Device() != w.dev || w.cq.Channel() != w.channel {
		t.Error("the CQ is of another device, or channel")
	}
	plain := must[*uverbs.CQ](t)(w.dev.CreateCQ(1, nil))
	if plain.Channel() != nil {
		t.Error("a CQ without a channel has one")
	}
	asked := verbs.QPCap{MaxSendWR: 3, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1}
	qp := must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: plain, RecvCQ: plain, Cap: asked}))
	srq := must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 2, MaxSGE: 3}))
	c := qp.Cap()
	if c.MaxSendWR < asked.MaxSendWR || c.MaxRecvWR < asked.MaxRecvWR || c.MaxSendSGE < 1 || c.MaxRecvSGE < 1 {
		t.Errorf("%+v, asked for %+v", c, asked)
	}
	if srq.MaxSGE() < 3 {
		t.Errorf("%d SGEs, asked for 3", srq.MaxSGE())
	}
	closeAll(t, srq, qp, plain)

	r := worldOn(t, rxe0)
	mw := must[*uverbs.MW](t)(r.pd.AllocMW(verbs.MWType2))
	key := mw.RKey() ^ 0xff
	if mw.SetRKey(key); mw.RKey() != key {
		t.Errorf("key %#x, set to %#x", mw.RKey(), key)
	}
	closeAll(t, mw)

	if x := newXRC(t); x.xrcd.Device() != x.dev {
		t.Error("the XRCD is of another device")
	}
}

// TestWake checks that Wake raises an event without a completion, and that the event is not one of
// the device's.
func TestWake(t *testing.T) {
	w := newWorld(t)
	hook.Wake(w.cq)
	if cq, err := w.channel.Get(t.Context()); cq != w.cq || err != nil {
		t.Error(cq, err)
	}
	if n, err := w.cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil || w.kcq().Events() != 0 {
		t.Error(n, err, w.kcq().Events())
	}
}

// TestOpenPCINowhere checks that the error for a function that does not exist names those that do.
func TestOpenPCINowhere(t *testing.T) {
	_, err := uverbs.OpenPCI("ffff:ff:1f.7")
	if !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "PCI address ffff:ff:1f.7") {
		t.Error(err)
	}
}
