package uverbs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func TestWaitWithoutRoom(t *testing.T) {
	w := newWorld(t)
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 1})
	if n, err := w.cq.Wait(t.Context(), nil); n != 0 || !errors.Is(err, syscall.EINVAL) {
		t.Error(n, err)
	}
}

func toError(t *testing.T, qp *uverbs.QP) {
	t.Helper()
	if err := qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
}

// start brings the QP to RTS.
func start(t *testing.T, w *world) {
	t.Helper()
	if w.dev.Info().Driver == verbs.DriverSIW {
		w.kqp().Connect()
		return
	}
	attr := &verbs.QPAttr{DestQPN: w.qp.Num(), AH: *address}
	if err := errors.Join(w.qp.Init(attr), w.qp.Connect(attr)); err != nil {
		t.Fatal(err)
	}
}

// All who wait get what is flushed first, and then the cause of the end.
func TestEndOfCQ(t *testing.T) { synctest.Test(t, testEndOfCQ) }

func testEndOfCQ(t *testing.T) {
	for _, info := range []uverbs.DeviceInfo{siw0, rxe0} {
		w := bubbleWorldOn(t, info)
		start(t, w)
		if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 1}, {WRID: 2}}); err != nil {
			t.Fatal(err)
		}
		const waiters = 3
		type result struct {
			wrID uint64
			err  error
		}
		results := make(chan result)
		for range waiters {
			go func() {
				for {
					wcs := make([]verbs.WC, 1)
					_, err := w.cq.Wait(context.Background(), wcs)
					results <- result{wcs[0].WRID, err}
					if err != nil {
						return
					}
				}
			}()
		}
		until(t, "armed", w.kcq().Armed)
		hooks.End(w.cq, io.EOF)
		hooks.End(w.cq, io.ErrClosedPipe) // is no longer the first
		parked()
		select {
		case r := <-results:
			t.Fatalf("%s: %+v while the QP works", info.Name, r)
		default:
		}
		toError(t, w.qp)
		flushed := make(map[uint64]bool)
		for ended := 0; ended < waiters; {
			r := <-results
			if r.err == nil {
				flushed[r.wrID] = true
				continue
			}
			if ended++; !errors.Is(r.err, io.EOF) {
				t.Errorf("%s: %v", info.Name, r.err)
			}
		}
		// The waiters report side by side, so only the sum is certain here.
		if len(flushed) != 2 {
			t.Errorf("%s: ended after %v", info.Name, flushed)
		}
		// Of what comes later the flush is seen, too.
		if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 3}}); err != nil {
			t.Fatal(err)
		}
		wcs := make([]verbs.WC, 2)
		if n, err := w.cq.Wait(t.Context(), wcs); n != 1 || err != nil || wcs[0].WRID != 3 {
			t.Errorf("%s: %d, %v", info.Name, n, err)
		}
		if _, err := w.cq.Wait(t.Context(), wcs); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", info.Name, err)
		}
		w.close(t)
	}
}

// A context ends a wait for a QP that has not failed yet.
func TestEndOfCQContext(t *testing.T) { synctest.Test(t, testEndOfCQContext) }

func testEndOfCQContext(t *testing.T) {
	for _, info := range []uverbs.DeviceInfo{siw0, rxe0} {
		w := bubbleWorldOn(t, info)
		hooks.End(w.cq, io.EOF)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := w.cq.Wait(ctx, make([]verbs.WC, 1)); err != context.DeadlineExceeded {
			t.Errorf("%s: %v", info.Name, err)
		}
		cancel()
		closeAll(t, w.qp)
		if _, err := w.cq.Wait(t.Context(), make([]verbs.WC, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: without a QP: %v", info.Name, err)
		}
	}
}

// Get tells of the end as it tells of an event.
func TestEndOfCQWakesGet(t *testing.T) {
	w := newWorld(t)
	got := run(func() error {
		cq, err := w.channel.Get(context.Background())
		if cq != w.cq {
			t.Error("another CQ")
		}
		return err
	})
	hooks.End(w.cq, io.EOF)
	if err := within(t, "Get", got); err != nil {
		t.Error(err)
	}
}

// Whoever has seen a failed completion finds the owner told of the first one.
func TestOnError(t *testing.T) {
	w := newWorld(t)
	w.kqp().Connect()
	var heard []error
	hear := func(s error) { heard = append(heard, s) }
	hooks.OnError(w.qp, hear)
	wcs := make([]verbs.WC, 1)
	poll := func(want verbs.Status) {
		t.Helper()
		if n, err := w.cq.Poll(wcs); n != 1 || err != nil || wcs[0].Status != want {
			t.Fatalf("%+v, %v", wcs[0], err)
		}
	}
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 1, QpId: uint64(w.qp.Num())})
	if poll(verbs.StatusSuccess); len(heard) != 0 {
		t.Error("of a success", heard)
	}
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 2, QpId: uint64(w.qp.Num()), Status: abi.SIW_WC_REM_ACCESS_ERR})
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 3, QpId: uint64(w.qp.Num()), Status: abi.SIW_WC_WR_FLUSH_ERR})
	if poll(verbs.StatusRemAccessErr); len(heard) != 1 || heard[0] != verbs.StatusRemAccessErr {
		t.Error("of the first failure", heard)
	}
	poll(verbs.StatusWRFlushErr)
	if len(heard) != 1 {
		t.Error("more than once", heard)
	}
}

// An owner that asks late hears of what was before.
func TestOnErrorLate(t *testing.T) {
	w := newWorld(t)
	w.kqp().Connect()
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 2, QpId: uint64(w.qp.Num()), Status: abi.SIW_WC_REM_ACCESS_ERR})
	if _, err := w.cq.Wait(t.Context(), make([]verbs.WC, 1)); err != nil {
		t.Fatal(err)
	}
	var heard error
	if hooks.OnError(w.qp, func(s error) { heard = s }); heard != verbs.StatusRemAccessErr {
		t.Error(heard)
	}
}

// The hook runs under no lock: while another goroutine polls the next failure, and waits for
// the hook, the hook may use the QP and its CQ.
func TestOnErrorUnlocked(t *testing.T) {
	w := newWorld(t)
	w.kqp().Connect()
	fail := func(id uint64) {
		fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: id, QpId: uint64(w.qp.Num()), Status: abi.SIW_WC_REM_ACCESS_ERR})
	}
	poll := func() error {
		n, err := w.cq.Poll(make([]verbs.WC, 1))
		if n != 1 {
			err = errors.Join(err, fmt.Errorf("%d completions", n))
		}
		return err
	}
	var other <-chan error
	hooks.OnError(w.qp, func(error) {
		fail(3)
		other = run(poll)
		for range 100 {
			runtime.Gosched()
			if err := w.cq.Arm(false); err != nil {
				t.Error(err)
			}
		}
	})
	fail(2)
	if err := within(t, "the poll that calls the hook", run(poll)); err != nil {
		t.Error(err)
	}
	if err := within(t, "the other poll", other); err != nil {
		t.Error(err)
	}
}

// A device that flushes in its own time is waited for, whatever it has to flush.
func TestEndWaitsForDevice(t *testing.T) {
	for _, kind := range []struct {
		name string
		post func(*uverbs.QP) (int, error)
		take func(*world)
	}{
		{"send", func(qp *uverbs.QP) (int, error) {
			return qp.PostSend([]verbs.SendWR{{WRID: 1, Opcode: verbs.OpSend}})
		},
			func(w *world) { fakerxe.QPOf(w.kqp()).TakeSend() }},
		{"receive", func(qp *uverbs.QP) (int, error) { return qp.PostRecv([]verbs.RecvWR{{WRID: 1}}) },
			func(w *world) { fakerxe.QPOf(w.kqp()).TakeRecv() }},
	} {
		test := func(t *testing.T) {
			w := bubbleWorldOn(t, rxe0)
			start(t, w)
			if _, err := kind.post(w.qp); err != nil {
				t.Fatal(err)
			}
			w.k.Fail("MODIFY_QP", 0, syscall.EIO) // for it would flush at once
			complete := func(id uint64) {
				fakerxe.CQOf(w.kcq()).Complete(abi.IbUverbsWc{WrId: id, Status: abi.IB_WC_WR_FLUSH_ERR, QpNum: w.qp.Num()})
			}
			wcs := make([]verbs.WC, 1)
			complete(9)
			if _, err := w.cq.Wait(t.Context(), wcs); err != nil {
				t.Fatal(err)
			}
			hooks.End(w.cq, io.EOF)
			done := run(func() error { return failed(w.cq.Wait(context.Background(), wcs)) })
			parked()
			select {
			case err := <-done:
				t.Fatal("with one outstanding:", err)
			default:
			}
			kind.take(w)
			complete(1)
			if err := within(t, "flush", done); err != nil || wcs[0].WRID != 1 {
				t.Errorf("%+v, %v", wcs[0], err)
			}
			if _, err := w.cq.Wait(t.Context(), wcs); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		}
		t.Run(kind.name, func(t *testing.T) { synctest.Test(t, test) })
	}
}
