package uverbs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// cqs makes n more CQs on the world's channel.
func (w *world) cqs(t *testing.T, n int) []*uverbs.CQ {
	t.Helper()
	all := make([]*uverbs.CQ, n)
	for i := range all {
		all[i] = must[*uverbs.CQ](t)(w.dev.CreateCQ(256, &uverbs.CQOptions{Channel: w.channel}))
		t.Cleanup(func() {
			if err := all[i].Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		})
	}
	return all
}

// get is Get with a timeout.
func get(t *testing.T, ch *uverbs.CompChannel) *uverbs.CQ {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cq, err := ch.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return cq
}

// nothingLeft fails when Get has an event to return before that of one more CQ.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	before := w.k.CQs()
	one := w.cqs(t, 1)[0]
	for _, kcq := range w.k.CQs() {
		if !slices.Contains(before, kcq) {
			kcq.Event()
		}
	}
	if cq := get(t, w.channel); cq != one {
		t.Errorf("an event of %p is left", cq)
	}
}

// TestGetOrder gets the events of several CQs, first come first served, each
// once however often it was raised.
func TestGetOrder(t *testing.T) {
	w := newWorld(t)
	all := w.cqs(t, 4)
	for _, i := range []int{2, 0, 2, 3, 1} {
		w.k.CQs()[i+1].Event()
	}
	got := fmt.Sprintf("%p", get(t, w.channel))
	if want := fmt.Sprintf("%p", all[2]); got != want {
		t.Errorf("first %s, want %s", got, want)
	}
	seen := make(map[*uverbs.CQ]int)
	for range 4 {
		seen[get(t, w.channel)]++
	}
	// The second event of all[2] came after the first had been fetched, or not.
	if seen[all[0]] != 1 || seen[all[1]] != 1 || seen[all[2]] != 1 || seen[all[3]] != 1 {
		t.Errorf("%v", seen)
	}
	w.nothingLeft(t)
}

// TestGetArmed is the loop of a user: an event for each armed CQ that completes.
func TestGetArmed(t *testing.T) {
	w := newWorld(t)
	var wcs [1]verbs.WC
	for i := range 50 {
		if err := w.cq.Arm(false); err != nil {
			t.Fatal(err)
		}
		fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Id: uint64(i), Opcode: abi.SIW_OP_RECEIVE})
		if cq := get(t, w.channel); cq != w.cq {
			t.Fatal("another CQ")
		}
		if n, err := w.cq.Poll(wcs[:]); n != 1 || err != nil || wcs[0].WRID != uint64(i) {
			t.Fatal(n, err, wcs[0].WRID)
		}
	}
	w.nothingLeft(t)
}

// TestGetMadeCompletion checks that a Get that waits returns the CQ of work that the provider
// completes.
func TestGetMadeCompletion(t *testing.T) { synctest.Test(t, testGetMadeCompletion) }

func testGetMadeCompletion(t *testing.T) {
	w := newBubbleWorld(t)
	if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 7}}); err != nil {
		t.Fatal(err)
	}
	var cq *uverbs.CQ
	done := run(func() (err error) { cq, err = w.channel.Get(context.Background()); return err })
	parked()
	if err := w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	if _, err := w.qp.PostRecv([]verbs.RecvWR{{WRID: 8}}); err != nil {
		t.Fatal(err)
	}
	if err := within(t, "get", done); err != nil || cq != w.cq {
		t.Fatal(cq, err)
	}
}

func TestGetEnds(t *testing.T) { synctest.Test(t, testGetEnds) }

func testGetEnds(t *testing.T) {
	w := newBubbleWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := run(func() error { _, err := w.channel.Get(ctx); return err })
	other := run(func() error { _, err := w.channel.Get(ctx); return err })
	parked()
	cancel()
	for _, d := range []<-chan error{done, other} {
		if err := within(t, "cancelled", d); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	done = run(func() error { _, err := w.channel.Get(context.Background()); return err })
	other = run(func() error { _, err := w.channel.Get(context.Background()); return err })
	parked()
	if err := errors.Join(w.qp.Close(), w.cq.Close(), w.channel.Close()); err != nil {
		t.Fatal(err)
	}
	for _, d := range []<-chan error{done, other} {
		if err := within(t, "closed", d); !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := w.channel.Get(context.Background()); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestGetForgetsClosed closes a CQ whose event a waiter of another one has read.
func TestGetForgetsClosed(t *testing.T) {
	w := newWorld(t)
	all := w.cqs(t, 3)
	done := run(func() error { return failed(w.cq.Wait(context.Background(), make([]verbs.WC, 1))) })
	untilAwaited(t, w.kcq())
	for i := range all {
		w.k.CQs()[i+1].Event()
	}
	fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Opcode: abi.SIW_OP_RECEIVE}) // whose event comes last
	if err := within(t, "wait", done); err != nil {
		t.Fatal(err)
	}
	if err := all[1].Close(); err != nil {
		t.Fatal(err)
	}
	if get(t, w.channel) != all[0] || get(t, w.channel) != all[2] {
		t.Error("not those that are left")
	}
	w.nothingLeft(t)
}

// TestGetLeavesWaiters checks that Get takes no events of CQs with waiters.
func TestGetLeavesWaiters(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		done := run(func() error { return failed(w.cq.Wait(context.Background(), make([]verbs.WC, 1))) })
		untilAwaited(t, w.kcq())
		ctx, cancel := context.WithCancel(context.Background())
		got := run(func() error { _, err := w.channel.Get(ctx); return err })
		fakesiw.CQOf(w.kcq()).Complete(abi.SiwCqe{Opcode: abi.SIW_OP_RECEIVE})
		if err := within(t, "wait", done); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := within(t, "get", got); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

// TestGetAndWaitTogether uses both on one channel, on different CQs. No event is lost.
func TestGetAndWaitTogether(t *testing.T) {
	const rounds = 200
	w := newWorld(t)
	all := w.cqs(t, 4)
	wait := func(cq *uverbs.CQ) func() error {
		return func() error {
			for n := 0; n < rounds; {
				k, err := cq.Wait(context.Background(), make([]verbs.WC, 1))
				if err != nil {
					return err
				}
				n += k
			}
			return nil
		}
	}
	polled := make(map[*uverbs.CQ]int)
	arm := func(cq *uverbs.CQ) error {
		for {
			if err := cq.Arm(false); err != nil {
				return err
			}
			n, err := cq.Poll(make([]verbs.WC, 4))
			if polled[cq] += n; n == 0 || err != nil {
				return err
			}
		}
	}
	getter := run(func() error {
		for _, cq := range all[2:] {
			if err := arm(cq); err != nil {
				return err
			}
		}
		for polled[all[2]] < rounds || polled[all[3]] < rounds {
			cq, err := w.channel.Get(context.Background())
			if err != nil {
				return err
			}
			if cq != all[2] && cq != all[3] {
				continue
			}
			if err := arm(cq); err != nil {
				return err
			}
		}
		return nil
	})
	waiters := []<-chan error{run(wait(all[0])), run(wait(all[1]))}
	for i := range all {
		go func() {
			k := w.k.CQs()[i+1]
			for n := 0; n < rounds; {
				if fakesiw.CQOf(k).Complete(abi.SiwCqe{Opcode: abi.SIW_OP_RECEIVE}) {
					n++
					continue
				}
				time.Sleep(10 * time.Microsecond) // the CQ is full
			}
		}()
	}
	for _, d := range append(waiters, getter) {
		if err := within(t, "together", d); err != nil {
			t.Error(err)
		}
	}
}
