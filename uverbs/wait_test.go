package uverbs_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// patience is how long a wait that must end may take on a busy machine.
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

// untilArmed waits for a waiter to have armed the CQ.
func untilArmed(t *testing.T, cq *fakeverbs.CQ) {
	t.Helper()
	until(t, "armed", cq.Armed)
}

// untilAwaited waits for a waiter to have armed the CQ, and looked at it once
// more: only the event tells it what comes now.
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

// parked has all others in a bubble come to where they park, be it after a moment of
// patience.
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

// TestWaitAfterCancel has the deadline that a cancelled wait left on the
// descriptor not harm the next one.
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
	for i := range 50 { // each closes what it opened
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

// TestNoLostWakeup has several CQs share a channel and several waiters share each
// CQ. A few completions go out only when all before were taken, so one lost wake-up
// stops everything. Waits on one more CQ time out all along, to stir the channel.
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
		typ     uverbs.EventType
		want    uverbs.AsyncEvent
	}{
		{w.kcq().Cookie, uverbs.EventCQErr, uverbs.AsyncEvent{Type: uverbs.EventCQErr, CQ: w.cq}},
		{w.kqp().Cookie, uverbs.EventQPAccessErr, uverbs.AsyncEvent{Type: uverbs.EventQPAccessErr, QP: w.qp}},
		{w.k.SRQs()[0].Cookie, uverbs.EventSRQLimitReached, uverbs.AsyncEvent{Type: uverbs.EventSRQLimitReached, SRQ: w.srq}},
		{1, uverbs.EventPortActive, uverbs.AsyncEvent{Type: uverbs.EventPortActive, Port: 1}},
		{1, 99, uverbs.AsyncEvent{Type: 99}}, // of a newer kernel, with a number that is also a cookie
		{0, uverbs.EventDeviceFatal, uverbs.AsyncEvent{Type: uverbs.EventDeviceFatal}},
	} {
		w.k.Async(1<<40, uint32(uverbs.EventQPFatal)) // of an object that is gone: skipped
		w.k.Async(c.element, uint32(c.typ))
		if got, err := w.dev.AsyncEvent(context.Background()); err != nil || got != c.want {
			t.Errorf("%v: %+v, %v", c.typ, got, err)
		}
	}
	if s := uverbs.EventType(99).String(); s != "EventType(99)" {
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
