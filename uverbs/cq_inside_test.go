package uverbs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// stubCQ is a completion queue made of functions.
type stubCQ struct {
	poll func([]verbs.WC) int
	arm  func()
}

func (q stubCQ) Poll(wcs []verbs.WC) (int, bool, error) { return q.poll(wcs), false, nil }
func (q stubCQ) Arm(bool) error                         { q.arm(); return nil }

// newInside returns a CQ with a channel, for tests of unexported parts.
func newInside(t *testing.T) (*Device, *CQ) {
	t.Helper()
	dev, err := DeviceInfo{Name: "siw0", Driver: verbs.DriverSIW, ABI: 1, Ports: 1, Node: kernel.Node(fakeverbs.New(uint32(verbs.DriverSIW)))}.Open()
	if err != nil {
		t.Fatal(err)
	}
	ch, err := dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(40, &CQOptions{Channel: ch})
	if err != nil {
		t.Fatal(err)
	}
	cq.peek = new(mmap.Peek)
	cq.peek.Hide() // which looks at no ring of the test's
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{cq, ch, dev} {
			if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		}
	})
	return dev, cq
}

// A completion that arrives before the CQ is armed raises no event, so Wait polls once more after
// arming.
func TestWaitPollsAfterArming(t *testing.T) {
	_, cq := newInside(t)
	came := 0
	cq.ring = stubCQ{
		poll: func(wcs []verbs.WC) int { n := came; came = 0; return n },
		arm:  func() { came = 1 },
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if n, err := cq.Wait(ctx, make([]verbs.WC, 1)); n != 1 || err != nil {
		t.Error(n, err)
	}
}

// A QP is cleaned up while the kernel fills the CQ as fast as drain empties it. drain takes off at
// most as many completions as the CQ has entries.
func TestDrainIsBounded(t *testing.T) {
	_, cq := newInside(t)
	polls := 0
	cq.ring = stubCQ{poll: func(wcs []verbs.WC) int {
		if polls++; polls > 1000 {
			return 0
		}
		return len(wcs)
	}}
	cq.mu.Lock()
	cq.drain()
	cq.mu.Unlock()
	if most := cq.cqe/16 + 1; polls > most {
		t.Errorf("%d polls of 16 for %d entries", polls, cq.cqe)
	}
}

// A closed object is in no table.
func TestNothingLeftOfClosed(t *testing.T) {
	dev, cq := newInside(t)
	recvCQ, err := dev.CreateCQ(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	srq, err := pd.CreateSRQ(&SRQOptions{MaxWR: 1})
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(&QPOptions{SendCQ: cq, RecvCQ: recvCQ, Cap: verbs.QPCap{MaxSendWR: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(dev.events.objects); n != 4 || len(cq.qps) != 1 || len(recvCQ.qps) != 1 {
		t.Errorf("%d objects with events, %d and %d QPs", n, len(cq.qps), len(recvCQ.qps))
	}
	if err := qp.Close(); err != nil {
		t.Fatal(err)
	}
	if len(cq.qps) != 0 || len(recvCQ.qps) != 0 {
		t.Errorf("the CQs still know %v and %v", cq.qps, recvCQ.qps)
	}
	if err := errors.Join(srq.Close(), pd.Close(), recvCQ.Close(), cq.Close()); err != nil {
		t.Fatal(err)
	}
	if len(dev.events.objects) != 0 {
		t.Errorf("left are %v", dev.events.objects)
	}
}
