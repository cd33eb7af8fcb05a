package uverbs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// patience is the longest time that a wait may take on a busy machine.
const patience = time.Minute

func within(t *testing.T, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("%s: still waiting", what)
		return nil
	}
}

func run(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// untilArmed waits until a waiter has armed the CQ.
func untilArmed(t *testing.T, cq *fakeverbs.CQ) {
	t.Helper()
	until(t, "armed", cq.Armed)
}

// untilAwaited waits until a waiter has armed the CQ and polled it once more. From then on, only an
// event wakes it.
func untilAwaited(t *testing.T, cq *fakeverbs.CQ) {
	t.Helper()
	until(t, "awaited", func() bool { return cq.Armed() && cq.Awaited() })
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never " + what)
		}
	}
}

// parked waits until all other goroutines in the bubble are blocked, including lone waiters, which
// block their thread first.
func parked() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func TestWaitReturnsCompletion(t *testing.T) {
	w := newWorld(t)
	wcs := make([]verbs.WC, 4)
	n := 0
	done := run(func() (err error) { n, err = w.cq.Wait(context.Background(), wcs); return err })
	untilAwaited(t, w.kcq())
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 7, Opcode: abi.SIW_OP_RECEIVE, Bytes: 3, QpId: 1})
	if err := within(t, "wait", done); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	want := verbs.WC{WRID: 7, Opcode: verbs.WCRecv, ByteLen: 3, QPN: 1}
	if wcs[0] != want {
		t.Errorf("%+v", wcs[0])
	}
}

func TestWaitEnds(t *testing.T) {
	soon := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	for _, c := range []struct {
		name string
		ctx  func(*testing.T) context.Context
		end  func(*world) error
		want error
	}{
		{"deadline", soon, nil, context.DeadlineExceeded},
		{"cancelled before", func(*testing.T) context.Context {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx
		}, nil, context.Canceled},
		{"CQ closed", nil, func(w *world) error { return errors.Join(w.qp.Close(), w.cq.Close()) }, verbs.ErrClosed},
		{"truncated event", nil, func(w *world) error { w.kcq().EventBytes([]byte{1, 2, 3}); return nil }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			ctx := context.Background()
			if c.ctx != nil {
				ctx = c.ctx(t)
			}
			done := run(func() error { return failed(w.cq.Wait(ctx, make([]verbs.WC, 1))) })
			if c.end != nil {
				untilAwaited(t, w.kcq())
				if err := c.end(w); err != nil {
					t.Error(err)
				}
			}
			err := within(t, c.name, done)
			if c.want != nil && !errors.Is(err, c.want) || c.want == nil && (err == nil || !strings.Contains(err.Error(), "truncated event")) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestWaitAfterCancel checks that the deadline that a cancelled wait left on the descriptor does not
// affect the next wait.
func TestWaitAfterCancel(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		if _, err := w.cq.Wait(ctx, make([]verbs.WC, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
	}
	done := run(func() error { return failed(w.cq.Wait(context.Background(), make([]verbs.WC, 1))) })
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{})
	if err := within(t, "wait", done); err != nil {
		t.Error(err)
	}
}

// TestEventsOfNobody delivers events for a CQ that was destroyed, or never was.
func TestEventsOfNobody(t *testing.T) {
	w := newWorld(t)
	gone := must[*uverbs.CQ](t)(w.dev.CreateCQ(1, &uverbs.CQOptions{Channel: w.channel}))
	w.k.CQs()[1].Event()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	done := run(func() error { return failed(w.cq.Wait(context.Background(), make([]verbs.WC, 1))) })
	untilAwaited(t, w.kcq())
	w.kcq().EventBytes([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	w.kcq().Event() // for the right CQ, which has nothing
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{})
	if err := within(t, "wait", done); err != nil {
		t.Error(err)
	}
}

func TestWaitNeedsChannel(t *testing.T) {
	w := newWorld(t)
	cq := must[*uverbs.CQ](t)(w.dev.CreateCQ(1, nil))
	defer cq.Close()
	if _, err := cq.Wait(context.Background(), make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "without a CompChannel") {
		t.Error(err)
	}
	if err := w.cq.Arm(true); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("solicited-only on siw: %v", err)
	}
}

// TestOneEventManyWaiters completes several work requests with one event, while
// several goroutines wait for one each: the event's waiter must pass it on.
func TestOneEventManyWaiters(t *testing.T) {
	for i := range 50 { // each closes its objects
		t.Run(strconv.Itoa(i), oneEventManyWaiters)
	}
}

func oneEventManyWaiters(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	const waiters = 4
	for range waiters {
		wg.Go(func() {
			if _, err := w.cq.Wait(context.Background(), make([]verbs.WC, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	untilAwaited(t, w.kcq())
	for i := range waiters {
		fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: uint64(i)})
	}
	if err := within(t, "waiters", run(func() error { wg.Wait(); return nil })); err != nil {
		t.Error(err)
	}
}

// TestNoLostWakeup checks that no wake-up is lost if several CQs share a channel, and several waiters
// share each CQ. A few completions are written only after all earlier ones were taken, so one lost
// wake-up stops everything. Waits on another CQ time out meanwhile, to disturb the channel.
func TestNoLostWakeup(t *testing.T) {
	w := newWorld(t)
	const waiters, rounds = 3, 1000
	ctx, cancel := context.WithCancel(context.Background())
	var consumers, producers sync.WaitGroup
	for i := range 3 {
		cq := must[*uverbs.CQ](t)(w.dev.CreateCQ(16, &uverbs.CQOptions{Channel: w.channel}))
		kcq := w.k.CQs()[i+1]
		defer func() { _ = cq.Close() }()
		taken := make(chan int, 16)
		for j := range waiters {
			consumers.Go(func() {
				wcs := make([]verbs.WC, 1+j)
				for {
					n, err := cq.Wait(ctx, wcs)
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					taken <- n
				}
			})
		}
		producers.Go(func() {
			for round := range rounds {
				batch := 1 + round%4
				for range batch {
					fakesiw.CQOf(kcq).Complete(abi.SiwCqe{})
				}
				for batch > 0 {
					batch -= <-taken
				}
			}
		})
	}
	consumers.Go(func() {
		for ctx.Err() == nil {
			short, stop := context.WithTimeout(ctx, 200*time.Microsecond)
			_, _ = w.cq.Wait(short, make([]verbs.WC, 1))
			stop()
		}
	})
	if err := within(t, "producers", run(func() error { producers.Wait(); return nil })); err != nil {
		t.Error(err)
	}
	cancel()
	if err := within(t, "consumers", run(func() error { consumers.Wait(); return nil })); err != nil {
		t.Error(err)
	}
}

// TestFlushWakesWaiter fails a QP while goroutines wait on its CQ, also one that
// reads the channel for another CQ: completions made in user space raise no event
// in the kernel.
func TestFlushWakesWaiter(t *testing.T) {
	w := newWorld(t)
	other := must[*uverbs.CQ](t)(w.dev.CreateCQ(1, &uverbs.CQOptions{Channel: w.channel}))
	ctx, cancel := context.WithCancel(context.Background())
	reader := run(func() error { return failed(other.Wait(ctx, make([]verbs.WC, 1))) })
	untilAwaited(t, w.k.CQs()[1])
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	wcs := make([]verbs.WC, 1)
	done := run(func() error { return failed(w.cq.Wait(context.Background(), wcs)) })
	untilArmed(t, w.kcq())
	if n, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 9}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := within(t, "flush", done); err != nil || wcs[0].WRID != 9 || wcs[0].Status != verbs.StatusWRFlushErr {
		t.Error(wcs[0], err)
	}
	cancel()
	if err := within(t, "cancelled reader", reader); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestAsyncEvents(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		element uint64
		typ     verbs.EventType
		want    uverbs.AsyncEvent
	}{
		{w.kcq().Cookie, verbs.EventCQErr, uverbs.AsyncEvent{Type: verbs.EventCQErr, CQ: w.cq}},
		{w.kqp().Cookie, verbs.EventQPAccessErr, uverbs.AsyncEvent{Type: verbs.EventQPAccessErr, QP: w.qp}},
		{w.k.SRQs()[0].Cookie, verbs.EventSRQLimitReached, uverbs.AsyncEvent{Type: verbs.EventSRQLimitReached, SRQ: w.srq}},
		{1, verbs.EventPortActive, uverbs.AsyncEvent{Type: verbs.EventPortActive, Port: 1}},
		{1, 99, uverbs.AsyncEvent{Type: 99}}, // of a newer kernel, with a number that is also a cookie
		{0, verbs.EventDeviceFatal, uverbs.AsyncEvent{Type: verbs.EventDeviceFatal}},
	} {
		w.k.Async(1<<40, uint32(verbs.EventQPFatal)) // of an object that is gone: skipped
		w.k.Async(c.element, uint32(c.typ))
		if got, err := w.dev.AsyncEvent(context.Background()); err != nil || got != c.want {
			t.Errorf("%v: %+v, %v", c.typ, got, err)
		}
	}
	if s := verbs.EventType(99).String(); s != "EventType(99)" {
		t.Error(s)
	}
}

func TestAsyncEventEnds(t *testing.T) { synctest.Test(t, testAsyncEventEnds) }

func testAsyncEventEnds(t *testing.T) {
	dev := openWith(t, bubbleKernel(siw0), siw0)
	ctx, cancel := context.WithCancel(context.Background())
	var waits []<-chan error
	for range 3 { // one reads, two wait for their turn
		waits = append(waits, run(func() error { return failed(dev.AsyncEvent(ctx)) }))
	}
	parked()
	cancel()
	for _, done := range waits {
		if err := within(t, "cancel", done); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	waits = nil
	for range 3 {
		waits = append(waits, run(func() error { return failed(dev.AsyncEvent(context.Background())) }))
	}
	parked()
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	for _, done := range waits {
		if err := within(t, "close", done); !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
	}
}

func TestAsyncEventTruncated(t *testing.T) {
	k, dev := openSIW(t)
	k.AsyncBytes(make([]byte, 5))
	_, err := dev.AsyncEvent(context.Background())
	if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "truncated event") {
		t.Error(err)
	}
}

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

// start moves the QP to RTS.
func start(t *testing.T, w *world) {
	t.Helper()
	if w.dev.Info().Driver == verbs.DriverSIW {
		w.kqp().Connect(16, 16)
		return
	}
	attr := &verbs.QPAttr{DestQPN: w.qp.QPN(), AH: *address}
	if err := errors.Join(w.qp.Init(attr), w.qp.Connect(attr)); err != nil {
		t.Fatal(err)
	}
}

// Every waiter gets the flushed completions first, and then the cause of the end.
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
		hook.End(w.cq, io.EOF)
		hook.End(w.cq, io.ErrClosedPipe) // is no longer the first
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
		// Completions that are flushed later are returned, too.
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
		hook.End(w.cq, io.EOF)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := w.cq.Wait(ctx, make([]verbs.WC, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", info.Name, err)
		}
		cancel()
		closeAll(t, w.qp)
		if _, err := w.cq.Wait(t.Context(), make([]verbs.WC, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: without a QP: %v", info.Name, err)
		}
	}
}

// Get returns an ended CQ as it does for an event.
func TestEndOfCQWakesGet(t *testing.T) {
	w := newWorld(t)
	got := run(func() error {
		cq, err := w.channel.Get(context.Background())
		if cq != w.cq {
			t.Error("another CQ")
		}
		return err
	})
	hook.End(w.cq, io.EOF)
	if err := within(t, "Get", got); err != nil {
		t.Error(err)
	}
}

// When a caller sees a failed completion, the hook has been called with the first one.
func TestOnError(t *testing.T) {
	w := newWorld(t)
	w.kqp().Connect(16, 16)
	var heard []error
	hear := func(s error) { heard = append(heard, s) }
	hook.OnError(w.qp, hear)
	wcs := make([]verbs.WC, 1)
	poll := func(want verbs.Status) {
		t.Helper()
		if n, err := w.cq.Poll(wcs); n != 1 || err != nil || wcs[0].Status != want {
			t.Fatalf("%+v, %v", wcs[0], err)
		}
	}
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 1, QpId: uint64(w.qp.QPN())})
	if poll(verbs.StatusSuccess); len(heard) != 0 {
		t.Error("of a success", heard)
	}
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 2, QpId: uint64(w.qp.QPN()), Status: abi.SIW_WC_REM_ACCESS_ERR})
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 3, QpId: uint64(w.qp.QPN()), Status: abi.SIW_WC_WR_FLUSH_ERR})
	if poll(verbs.StatusRemAccessErr); len(heard) != 1 || heard[0] != verbs.StatusRemAccessErr {
		t.Error("of the first failure", heard)
	}
	poll(verbs.StatusWRFlushErr)
	if len(heard) != 1 {
		t.Error("more than once", heard)
	}
}

// A hook that is set late is called for an earlier failure.
func TestOnErrorLate(t *testing.T) {
	w := newWorld(t)
	w.kqp().Connect(16, 16)
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: 2, QpId: uint64(w.qp.QPN()), Status: abi.SIW_WC_REM_ACCESS_ERR})
	if _, err := w.cq.Wait(t.Context(), make([]verbs.WC, 1)); err != nil {
		t.Fatal(err)
	}
	var heard error
	if hook.OnError(w.qp, func(s error) { heard = s }); heard != verbs.StatusRemAccessErr {
		t.Error(heard)
	}
}

// The hook runs under no lock: while another goroutine polls the next failure, and waits for
// the hook, the hook may use the QP and its CQ.
func TestOnErrorUnlocked(t *testing.T) {
	w := newWorld(t)
	w.kqp().Connect(16, 16)
	fail := func(id uint64) {
		fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: id, QpId: uint64(w.qp.QPN()), Status: abi.SIW_WC_REM_ACCESS_ERR})
	}
	poll := func() error {
		n, err := w.cq.Poll(make([]verbs.WC, 1))
		if n != 1 {
			err = errors.Join(err, fmt.Errorf("%d completions", n))
		}
		return err
	}
	var other <-chan error
	hook.OnError(w.qp, func(error) {
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

// Wait waits for a device that flushes later.
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
				fakerxe.CQOf(w.kcq()).Complete(abi.IbUverbsWc{WrId: id, Status: abi.IB_WC_WR_FLUSH_ERR, QpNum: w.qp.QPN()})
			}
			wcs := make([]verbs.WC, 1)
			complete(9)
			if _, err := w.cq.Wait(t.Context(), wcs); err != nil {
				t.Fatal(err)
			}
			hook.End(w.cq, io.EOF)
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
