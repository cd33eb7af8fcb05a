package rxe

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestWrongState checks that posts fail in states in which the kernel would delay or
// discard the requests.
func TestWrongState(t *testing.T) {
	w := newWorld(t, verbs.QPTypeUD, nil)
	refused := func(err error, text string) {
		t.Helper()
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	send := func() error { return second(w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, AH: w.ah}})) }
	recv := func() error { return second(w.qp.PostRecv(make([]verbs.RecvWR, 1))) }
	for range 2 {
		refused(send(), "the QP is in RESET; sends can be posted from RTS on")
		refused(recv(), "the QP is in RESET; receives can be posted from INIT on")
		if err := w.qp.Init(&verbs.QPAttr{QKey: 1}); err != nil {
			t.Fatal(err)
		}
		refused(send(), "in INIT")
		if err := recv(); err != nil {
			t.Error(err)
		}
		w.modify(t, verbs.QPStateRTR)
		refused(send(), "in RTR")
		if _, ok := fakerxe.QPOf(w.kqp).TakeSend(); ok || w.k.Calls("POST_SEND") != 0 {
			t.Error("the kernel was called")
		}
		w.modify(t, verbs.QPStateReset)
	}
	w.connect(t)
	w.modify(t, verbs.QPStateSQD)
	if err := send(); err != nil {
		t.Error(err)
	}
}

func flushed(t *testing.T, wcs []verbs.WC) (ids []uint64) {
	t.Helper()
	for _, wc := range wcs {
		if wc.Status != verbs.StatusWRFlushErr || wc.QPN != 17 {
			t.Errorf("%+v", wc)
		}
		ids = append(ids, wc.WRID)
	}
	return ids
}

// TestFlush checks that every work request of a failed QP completes once, whenever it was
// posted: the kernel flushes receives only when it is forced to.
func TestFlush(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	recv := func(id uint64) {
		t.Helper()
		if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: id}}); err != nil {
			t.Fatal(err)
		}
	}
	send := func(id uint64) { t.Helper(); w.post(t, verbs.SendWR{WRID: id, Opcode: verbs.OpSend}) }
	recv(1)
	w.kqp.Break()
	recv(2) // the failure is not known yet
	send(3)
	if ids := flushed(t, w.poll(t)); !cmp.Equal(ids, []uint64{1, 2, 3}) {
		t.Errorf("%v", ids)
	}
	recv(4)
	send(5)
	recv(6)
	if ids := flushed(t, w.poll(t)); !cmp.Equal(ids, []uint64{4, 5, 6}) {
		t.Errorf("%v", ids)
	}
	if n := len(w.poll(t)); n != 0 {
		t.Errorf("%d more", n)
	}
}

// TestReuse leaves completions from before a RESET on the CQ: they do not count for the QP
// afterwards.
func TestReuse(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 1}, {WRID: 2}}); err != nil {
		t.Fatal(err)
	}
	w.modify(t, verbs.QPStateErr)
	w.post(t, verbs.SendWR{WRID: 3, Opcode: verbs.OpSend})
	if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 4}}); err != nil {
		t.Fatal(err)
	}
	w.modify(t, verbs.QPStateReset)
	w.connect(t)
	if ids := flushed(t, w.poll(t)); !cmp.Equal(ids, []uint64{1, 2, 3, 4}) {
		t.Errorf("%v", ids)
	}
	if s := w.kqp.State(); s != abi.IB_QPS_RTS {
		t.Fatalf("the QP is in %v", verbs.QPState(s))
	}
	moves := w.k.Calls("MODIFY_QP")
	if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 5}}); err != nil {
		t.Fatal(err)
	}
	w.post(t, verbs.SendWR{WRID: 6, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	if !w.kqp.Receive(0) || !w.kqp.Carry(abi.IB_WC_SUCCESS) || w.k.Calls("MODIFY_QP") != moves {
		t.Error("it is not like new")
	}
	for i, wc := range w.poll(t) {
		if wc.Err() != nil || wc.WRID != uint64(5+i) {
			t.Errorf("%+v", wc)
		}
	}
	w.kqp.Break() // and it fails like a new QP
	if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 7}}); err != nil {
		t.Fatal(err)
	}
	w.post(t, verbs.SendWR{WRID: 8, Opcode: verbs.OpSend})
	if ids := flushed(t, w.poll(t)); !cmp.Equal(ids, []uint64{7, 8}) {
		t.Errorf("%v", ids)
	}
}

// TestReuseRace polls the completions of a failed QP while the QP is moved to RESET. They
// must not fail it again.
func TestReuseRace(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	if _, err := w.qp.PostRecv(make([]verbs.RecvWR, 2)); err != nil {
		t.Fatal(err)
	}
	w.kqp.Break()
	polled := make(chan int)
	w.k.Tamper = func(call string, _ *ioctl.Request) {
		w.k.Tamper = nil
		go func() {
			n, _ := w.cq.Poll(make([]verbs.WC, 1))
			polled <- n
		}()
		for !waitsForQueue() { // until Poll has read the queue and waits for the QP
			runtime.Gosched()
		}
	}
	w.modify(t, verbs.QPStateReset)
	if n := <-polled + len(w.poll(t)); n != 2 {
		t.Errorf("%d completions", n)
	}
	w.connect(t)
	if _, err := w.qp.PostRecv(make([]verbs.RecvWR, 1)); err != nil {
		t.Fatal(err)
	}
	if s := w.kqp.State(); s != abi.IB_QPS_RTS {
		t.Errorf("the QP is in %v", verbs.QPState(s))
	}
}

// waitsForQueue reports whether a goroutine is waiting for a queue's lock.
func waitsForQueue() bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("driver.(*Lock).wait("))
}

// TestEventBeforeReset delays a fatal event until the QP has been reset: the event must not
// fail the QP. A fatal event after the RESET does.
func TestEventBeforeReset(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	end := func() {
		t.Helper()
		w.kqp.Break()
		w.k.Async(w.kqp.Cookie, uint32(verbs.EventQPFatal))
	}
	hear := func() {
		t.Helper()
		if e, err := w.dev.AsyncEvent(t.Context()); err != nil || e.QP != w.qp || e.Type != verbs.EventQPFatal {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	for range 2 {
		end()
		w.modify(t, verbs.QPStateReset)
		w.connect(t)
		hear()
		if s := w.kqp.State(); s != abi.IB_QPS_RTS {
			t.Fatalf("the QP is in %v", verbs.QPState(s))
		}
		if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 1}}); err != nil || !w.kqp.Receive(0) {
			t.Errorf("it does not receive: %v", err)
		}
		if wcs := w.poll(t); len(wcs) != 1 || wcs[0].Err() != nil {
			t.Errorf("%+v", wcs)
		}
	}
	end()
	hear()
	if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 2}}); err != nil {
		t.Fatal(err)
	}
	if ids := flushed(t, w.poll(t)); !cmp.Equal(ids, []uint64{2}) {
		t.Errorf("%v", ids)
	}
}

// TestResetEmpties checks that RESET discards the posted work requests and keeps the rings'
// indexes. The provider moves the QP twice, see [qp.reset].
func TestResetEmpties(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	for round := range uint64(6) {
		w.post(t, make([]verbs.SendWR, depth)...)
		if _, err := w.qp.PostRecv(make([]verbs.RecvWR, 2)); err != nil {
			t.Fatal(err)
		}
		moves := w.k.Calls("MODIFY_QP")
		w.modify(t, verbs.QPStateReset)
		if n := w.k.Calls("MODIFY_QP") - moves; n != 2 {
			t.Errorf("%d calls", n)
		}
		w.connect(t)
		w.post(t, verbs.SendWR{WRID: round, Opcode: verbs.OpSend})
		if s := w.take(t); s.Wr.WrId != round {
			t.Errorf("%d, want %d", s.Wr.WrId, round)
		}
		if n := len(w.poll(t)); n != 0 {
			t.Errorf("%d completions", n)
		}
	}
	w.k.Fail("MODIFY_QP", 0, syscall.EIO)
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	w.post(t, verbs.SendWR{Opcode: verbs.OpSend}) // still in RTS
}

// TestSecondResetFails has the kernel refuse the second of the two moves to RESET. The QP
// is in RESET then, and all state reports that.
func TestSecondResetFails(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	if _, err := w.qp.PostRecv(make([]verbs.RecvWR, 1)); err != nil {
		t.Fatal(err)
	}
	w.modify(t, verbs.QPStateErr) // its flushed receive is on the CQ
	w.k.Fail("MODIFY_QP", 1, syscall.EIO)
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if s := w.kqp.State(); s != abi.IB_QPS_RESET {
		t.Fatalf("the kernel has the QP in %v", verbs.QPState(s))
	}
	_, send := w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})
	_, recv := w.qp.PostRecv(make([]verbs.RecvWR, 1))
	w.k.Fail("QUERY_QP", 0, syscall.EIO) // so that the explanation is uverbs's
	move := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState)
	for want, err := range map[string]error{
		"the QP is in RESET; sends can be posted from RTS on":     send,
		"the QP is in RESET; receives can be posted from INIT on": recv,
		"no RC QP goes from RESET to RTS":                         move,
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	w.connect(t)
	if n := len(w.poll(t)); n != 1 || w.kqp.State() != abi.IB_QPS_RTS {
		t.Errorf("%d completions of the earlier life; the QP is in %v", n, verbs.QPState(w.kqp.State()))
	}
	w.post(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
	if !w.kqp.Carry(abi.IB_WC_SUCCESS) || len(w.poll(t)) != 1 {
		t.Error("it does not send")
	}
}

// TestHarmlessError checks that a message that is too long for a receive of the SRQ fails
// the receive, not the QP, and that a later failure of the QP is noticed.
func TestHarmlessError(t *testing.T) {
	w := newWorld(t, verbs.QPTypeUD, func(w *world, o *uverbs.QPOptions) { o.SRQ = w.srq })
	w.connect(t)
	fakerxe.CQOf(w.kcq).Complete(abi.IbUverbsWc{Status: abi.IB_WC_REM_INV_REQ_ERR, QpNum: 17})
	if wcs := w.poll(t); len(wcs) != 1 || wcs[0].Status != verbs.StatusRemInvReqErr {
		t.Errorf("%+v", wcs)
	}
	if s := w.kqp.State(); s != abi.IB_QPS_RTS {
		t.Fatalf("the QP is in %v", verbs.QPState(s))
	}
	// The SRQ's receives are not flushed, and EventQPLastWQEReached comes once.
	if _, err := w.srq.PostRecv(make([]verbs.RecvWR, 2)); err != nil {
		t.Fatal(err)
	}
	w.modify(t, verbs.QPStateErr)
	w.post(t, verbs.SendWR{WRID: 1, Opcode: verbs.OpSend, AH: w.ah})
	if ids := flushed(t, w.poll(t)); !cmp.Equal(ids, []uint64{1}) {
		t.Errorf("%v", ids)
	}
	if n := w.k.Calls("MODIFY_QP"); n != 4 { // INIT, RTR, RTS, ERR
		t.Errorf("%d moves", n)
	}
	if ev, err := w.dev.AsyncEvent(context.Background()); err != nil || ev.Type != verbs.EventQPLastWQEReached || ev.QP != w.qp {
		t.Errorf("%+v, %v", ev, err)
	}
}

// TestResume checks that sends posted in SQD ring the doorbell when the QP goes back to
// RTS, and that other moves to RTS do not ring it.
func TestResume(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	if n := w.k.Calls("POST_SEND"); n != 0 {
		t.Errorf("%d calls for nothing", n)
	}
	w.modify(t, verbs.QPStateSQD)
	w.post(t, verbs.SendWR{WRID: 1, Opcode: verbs.OpSend})
	before := w.k.Calls("POST_SEND")
	w.modify(t, verbs.QPStateRTS)
	if n := w.k.Calls("POST_SEND") - before; n != 1 {
		t.Errorf("%d calls", n)
	}
}
