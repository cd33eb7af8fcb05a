//go:build vm

package siw

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCQOverflow checks that more completions than the CQ holds are an asynchronous event, and end the connection.
func TestCQOverflow(t *testing.T) {
	kit.NoLeak(t)
	newObjects(t).overflow(t)
}

// overflow has a CQ overflow. Its event is the next one: there is no other before.
func (o *objects) overflow(t *testing.T) {
	t.Helper()
	small := kit.Must(o.dev.CreateCQ(2, nil))(t)
	kit.CloseLater(t, small)
	var over kit.Setup
	over.Cfg.PD, over.Cfg.QP.SendCQ = o.pd, small
	c, _ := connect(t, over, kit.Setup{})
	for range small.Cap() + 1 {
		c.Post(c.AtPeer(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(0, 8)}}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	ev, err := o.dev.AsyncEvent(ctx)
	if err != nil || ev.Type != verbs.EventCQErr || ev.CQ != small {
		t.Errorf("%+v, %v", ev, err)
	}
	if <-c.Done(); !errors.Is(c.Err(), verbs.ErrCQOverflow) {
		t.Error(c.Err())
	}
}

// TestCQWait checks that a wait returns for completions from before it as well as from during it; each of two CQs on
// one channel gets its own.
func TestCQWait(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	c, _ := connect(t, kit.Setup{}, kit.Setup{})
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	short, stop := context.WithCancel(ctx)
	idle := make(chan error, 1)
	go func() { // on the channel of SendCQ; this goroutine usually reads for both
		_, err := c.RecvCQ().Wait(short, make([]verbs.WC, 1))
		idle <- err
	}()
	const rounds = 50
	write := c.AtPeer(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.MR.SGE(0, 8)}})
	for round := range rounds {
		late := round%2 == 0
		if late {
			time.AfterFunc(time.Millisecond, func() { c.Post(write) })
		} else {
			c.Post(write)
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

// TestCQArmRefused checks that siw loses solicited events of receives, so nobody may rely on them; and a CQ without a
// channel has no events.
func TestCQArmRefused(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	if err := k.cq.Arm(true); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if err := k.cq.Arm(false); err != nil {
		t.Error(err)
	}
	polled := kit.Must(k.dev.CreateCQ(1, nil))(t)
	kit.CloseLater(t, polled)
	if err := polled.Arm(false); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if _, err := polled.Wait(t.Context(), make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}

// TestCreateCQ creates CQs of one entry, of many, of all there can be, on each vector, with and without a channel.
func TestCreateCQ(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	most := int(kit.Must(k.dev.QueryDevice())(t).MaxCQE)
	for _, entries := range []int{1, most / 2, most} {
		for vector := range k.dev.CompVectors() {
			for _, channel := range []*uverbs.CompChannel{nil, k.channel} {
				cq := kit.Must(k.dev.CreateCQ(entries, &uverbs.CQOptions{Channel: channel, CompVector: vector}))(t)
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

// TestCQRefused checks that impossible sizes and vectors are refused.
func TestCQRefused(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	attr := kit.Must(k.dev.QueryDevice())(t)
	if _, err := k.dev.CreateCQ(int(attr.MaxCQE)+1, nil); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if _, err := k.dev.CreateCQ(1, &uverbs.CQOptions{CompVector: k.dev.CompVectors()}); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

// TestCQClosedWhileWaiting checks that the waiter gets an error.
func TestCQClosedWhileWaiting(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	cq := kit.Must(k.dev.CreateCQ(1, &uverbs.CQOptions{Channel: k.channel}))(t)
	waited := make(chan error, 1)
	go func() {
		_, err := cq.Wait(t.Context(), make([]verbs.WC, 1))
		waited <- err
	}()
	kit.Until(t, "waiting", func() bool { return kit.Parked("(*CQ).Wait") })
	if err := cq.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestSharedCQ checks that eight connections complete on one CQ, which says whose each is.
func TestSharedCQ(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	var shared kit.Setup
	shared.Recvs, shared.Cfg.PD, shared.Cfg.QP.RecvCQ = 1, k.pd, k.cq
	expect := make(map[uint32]bool)
	var s *kit.End
	for range 8 {
		var c *kit.End
		c, s = connect(t, kit.Setup{}, shared)
		c.Post(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("hello")})
		expect[s.QP().QPN()] = true
	}
	for len(expect) > 0 {
		wc := s.Next(k.cq)
		if got := kit.Brief(wc); got != "1000 RECV success 5" || !expect[wc.QPN] {
			t.Fatalf("%s on QP %d, want one of %v", got, wc.QPN, expect)
		}
		delete(expect, wc.QPN)
	}
}
