//go:build vm

package test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCQOverflow: more completions than the CQ holds are an asynchronous event.
func TestCQOverflow(t *testing.T) {
	noLeak(t)
	newKit(t).overflow(t)
}

// overflow has a CQ overflow. Its event is the next one: there is no other before.
func (o *kit) overflow(t *testing.T) {
	t.Helper()
	small := must(o.dev.CreateCQ(2, nil))(t)
	closeLater(t, small)
	var over setup
	over.cfg.PD, over.cfg.QP.SendCQ = o.pd, small
	c, _ := connect(t, over, setup{})
	for range small.Cap() + 1 {
		c.post(c.peer(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, 8)}}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ev, err := o.dev.AsyncEvent(ctx)
	if err != nil || ev.Type != uverbs.EventCQErr || ev.CQ != small {
		t.Errorf("%+v, %v", ev, err)
	}
}

// TestCQWait: a wait returns for completions from before it as well as from
// during it; each of two CQs on one channel gets its own.
func TestCQWait(t *testing.T) {
	fabric(t)
	noLeak(t)
	c, _ := connect(t, setup{}, setup{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	short, stop := context.WithCancel(ctx)
	idle := make(chan error, 1)
	go func() { // on the channel of SendCQ; this goroutine usually reads for both
		_, err := c.RecvCQ().Wait(short, make([]verbs.WC, 1))
		idle <- err
	}()
	const rounds = 50
	write := c.peer(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, 8)}})
	for round := range rounds {
		late := round%2 == 0
		if late {
			time.AfterFunc(time.Millisecond, func() { c.post(write) })
		} else {
			c.post(write)
		}
		if n, err := c.SendCQ().Wait(ctx, make([]verbs.WC, 4)); n != 1 || err != nil {
			t.Fatalf("round %d: %d, %v", round, n, err)
		}
	}
	stop()
	if err := <-idle; !errors.Is(err, context.Canceled) {
		t.Errorf("the other CQ: %v", err)
	}
}

// TestCQArmRefused: siw loses solicited events of receives, so nobody may rely
// on them; and a CQ without a channel has no events.
func TestCQArmRefused(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	if err := k.cq.Arm(true); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if err := k.cq.Arm(false); err != nil {
		t.Error(err)
	}
	polled := must(k.dev.CreateCQ(1, nil))(t)
	closeLater(t, polled)
	if err := polled.Arm(false); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if _, err := polled.Wait(t.Context(), make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}

// TestCreateCQ: of one entry, of many, of all there can be, on each vector, with
// and without a channel.
func TestCreateCQ(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	most := int(must(k.dev.Query())(t).MaxCQE)
	for _, entries := range []int{1, most / 2, most} {
		for vector := range k.dev.CompVectors() {
			for _, channel := range []*uverbs.CompChannel{nil, k.channel} {
				cq := must(k.dev.CreateCQ(entries, &uverbs.CQOptions{Channel: channel, CompVector: vector}))(t)
				if cq.Cap() < entries {
					t.Errorf("room for %d, asked for %d", cq.Cap(), entries)
				}
				if n, err := cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
				if err := cq.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// TestCQRefused: sizes and vectors that are not to be had.
func TestCQRefused(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	attr := must(k.dev.Query())(t)
	if _, err := k.dev.CreateCQ(int(attr.MaxCQE)+1, nil); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if _, err := k.dev.CreateCQ(1, &uverbs.CQOptions{CompVector: k.dev.CompVectors()}); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

// TestCQClosedWhileWaiting: the waiter gets an error.
func TestCQClosedWhileWaiting(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	cq := must(k.dev.CreateCQ(1, &uverbs.CQOptions{Channel: k.channel}))(t)
	waited := make(chan error, 1)
	go func() {
		_, err := cq.Wait(t.Context(), make([]verbs.WC, 1))
		waited <- err
	}()
	until(t, "waiting", func() bool { return parked("(*CQ).Wait") })
	if err := cq.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestSharedCQ: eight connections complete on one CQ, which says whose each is.
func TestSharedCQ(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	var shared setup
	shared.recvs, shared.cfg.PD, shared.cfg.QP.RecvCQ = 1, k.pd, k.cq
	expect := make(map[uint32]bool)
	var s *end
	for range 8 {
		var c *end
		c, s = connect(t, setup{}, shared)
		c.post(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("hello")})
		expect[s.QP().Num()] = true
	}
	for len(expect) > 0 {
		wc := s.next(k.cq)
		if got := brief(wc); got != "1000 RECV success 5" || !expect[wc.QPN] {
			t.Fatalf("%s on QP %d, want one of %v", got, wc.QPN, expect)
		}
		delete(expect, wc.QPN)
	}
}
