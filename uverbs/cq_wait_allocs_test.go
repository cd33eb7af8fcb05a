//go:build !race

package uverbs_test

import (
	"context"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/verbs"
)

// TestWaitAllocatesNothing blocks and wakes a waiter with a context again and again, and gets events
// from the channel.
func TestWaitAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wcs, got, kcq := make([]verbs.WC, 4), make(chan error), w.kcq()
	complete := func() { fakesiw.CQOf(kcq).Complete(abi.SiwCqe{QpId: 1}) }
	done := run(func() error {
		for {
			if _, err := w.cq.Wait(ctx, wcs); err != nil {
				return err
			}
			got <- nil
		}
	})
	wait := func() {
		untilAwaited(t, kcq)
		complete()
		if err := within(t, "wait", got); err != nil {
			t.Fatal(err)
		}
	}
	// within allocates a timer.
	timer := testing.AllocsPerRun(100, func() { within(t, "nothing", closed) })
	if n := testing.AllocsPerRun(100, wait); n > timer {
		t.Errorf("Wait allocates %v times", n-timer)
	}
	cancel()
	within(t, "cancelled", done)
	mine := make([]verbs.WC, 4)
	get := func() {
		if err := w.cq.Arm(false); err != nil {
			t.Fatal(err)
		}
		complete()
		if cq, err := w.channel.Get(t.Context()); cq != w.cq || err != nil {
			t.Fatal(cq, err)
		}
		if n, err := w.cq.Poll(mine); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := testing.AllocsPerRun(100, get); n > 0 {
		t.Errorf("Get allocates %v times", n)
	}
}

// closed is what within finds done.
var closed = func() chan error { c := make(chan error); close(c); return c }()
