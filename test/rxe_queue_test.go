//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
)

// TestRxeResizeCQ takes completions over into a larger and a smaller queue, from
// wherever they stand in the old one, and can't lose any. What is sent completes
// in its own time, so the test waits for what it resizes over.
func TestRxeResizeCQ(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	a, b := d.pair(t, uverbs.QPTypeRC, rxeSetup{cap: uverbs.QPCap{MaxSendWR: 60, MaxRecvWR: 60}})
	if err := a.sendCQ.Resize(20); err != nil || a.sendCQ.Cap() < 20 {
		t.Fatalf("%d entries, %v", a.sendCQ.Cap(), err)
	}
	var posted, seen uint64
	send := func(n int) {
		t.Helper()
		if _, err := b.qp.PostRecv(make([]uverbs.RecvWR, n)); err != nil {
			t.Fatal(err)
		}
		for range n {
			a.post(uverbs.SendWR{WRID: posted, Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled})
			posted++
		}
		for range n { // the last is received when the others are acknowledged, or about to be
			b.next(b.recvCQ)
		}
		a.post(uverbs.SendWR{WRID: posted, Opcode: uverbs.OpRDMARead, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
	poll := func(n int) {
		t.Helper()
		for range n {
			if wc := a.next(a.sendCQ); wc.WRID != seen || wc.Status != uverbs.StatusSuccess || wc.QPN != a.qp.Num() {
				t.Errorf("completion %d: %+v", seen, wc)
			}
			seen++
		}
	}
	send(20)
	poll(15)
	send(12) // around the end of the ring
	if err := a.sendCQ.Resize(50); err != nil || a.sendCQ.Cap() < 50 {
		t.Errorf("%d entries, %v", a.sendCQ.Cap(), err)
	}
	poll(7)
	send(30)
	// None of the 40 may be missing for the kernel to refuse.
	a.waitFor(func() bool {
		err := a.sendCQ.Resize(39)
		if err == nil && a.sendCQ.Cap() < 40 {
			t.Error("resized to fewer than there are")
		}
		return errors.Is(err, syscall.EINVAL)
	})
	if err := a.sendCQ.Resize(40); err != nil {
		t.Error(err)
	}
	if err := a.sendCQ.Resize(1 << 20); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	poll(40)
	if err := a.sendCQ.Resize(1); err != nil || a.sendCQ.Cap() < 1 {
		t.Errorf("%d entries, %v", a.sendCQ.Cap(), err)
	}
	send(1)
	poll(1)
}

// TestRxeSRQ has two QPs take receives from one queue, until the limit event, and
// goes on after the queue was resized with receives on it.
func TestRxeSRQ(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	srq := must(d.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 12, MaxSGE: 2}))(t)
	closeLater(t, srq)
	same := func(want uverbs.SRQAttr) {
		t.Helper()
		if diff := cmp.Diff(&want, must(srq.Query())(t)); diff != "" {
			t.Error(diff)
		}
	}
	same(uverbs.SRQAttr{MaxWR: 15, MaxSGE: 2})
	var pairs [2]struct{ from, to *rxeEnd }
	for i := range pairs {
		pairs[i].from, pairs[i].to = d.end(t, uverbs.QPTypeRC, rxeSetup{}), d.end(t, uverbs.QPTypeRC, rxeSetup{srq: srq})
		pairs[i].from.connect(pairs[i].to)
		pairs[i].to.connect(pairs[i].from)
	}
	memory := pairs[0].to.mr
	post := func(first, n uint64) {
		t.Helper()
		for id := first; id < first+n; id++ {
			sgl := []uverbs.SGE{memory.SGE(int(id)*64, 4), memory.SGE(int(id)*64+32, 4)}
			if _, err := srq.PostRecv([]uverbs.RecvWR{{WRID: id, SGL: sgl}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	take := func(id uint64) {
		t.Helper()
		p := pairs[id%2]
		p.from.post(uverbs.SendWR{Opcode: uverbs.OpSend, Inline: []byte("abcdefgh")[:4+id%5]})
		p.to.got(fmt.Sprintf("%d RECV success %d", id, 4+id%5))
		if got := string(memory.Bytes()[id*64:][:4]) + string(memory.Bytes()[id*64+32:][:id%5]); got != "abcdefgh"[:4+id%5] {
			t.Errorf("receive %d: %q", id, got)
		}
	}
	post(0, 15)
	if n, err := srq.PostRecv(make([]uverbs.RecvWR, 1)); n != 0 || !errors.Is(err, uverbs.ErrQueueFull) {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := pairs[0].to.qp.PostRecv(make([]uverbs.RecvWR, 1)); n != 0 || !errors.Is(err, uverbs.ErrInvalidWR) {
		t.Errorf("a receive to the QP: %d, %v", n, err)
	}
	for id := range uint64(6) {
		take(id)
	}
	if err := srq.SetLimit(8); err != nil {
		t.Fatal(err)
	}
	same(uverbs.SRQAttr{MaxWR: 15, MaxSGE: 2, Limit: 8})
	take(6)
	take(7)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if ev, err := d.AsyncEvent(ctx); err != nil || ev.Type != uverbs.EventSRQLimitReached || ev.SRQ != srq {
		t.Errorf("%+v, %v", ev, err)
	}
	same(uverbs.SRQAttr{MaxWR: 15, MaxSGE: 2})

	if err := srq.Resize(3); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("resized to fewer than there are: %v", err)
	}
	post(15, 4)
	if err := srq.Resize(40); err != nil || srq.MaxWR() != 63 {
		t.Fatalf("%d, %v", srq.MaxWR(), err)
	}
	post(19, 20)
	for id := uint64(8); id < 37; id++ {
		take(id)
	}
	if err := srq.Resize(3); err != nil || srq.MaxWR() != 3 {
		t.Fatalf("%d, %v", srq.MaxWR(), err)
	}
	post(39, 1)
	for id := uint64(37); id < 40; id++ {
		take(id)
	}
}

// TestRxeArm: an event comes once for what was asked for, and not for what is
// there already.
func TestRxeArm(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := openRxe(t).pair(t, uverbs.QPTypeRC, rxeSetup{})
	send := func(flags uverbs.SendFlags) {
		t.Helper()
		b.postRecv(1, 0, 8)
		a.post(uverbs.SendWR{Opcode: uverbs.OpSend, Flags: flags | uverbs.SendSignaled})
		a.sent("0 SEND success")
	}
	event := func(want bool) {
		t.Helper()
		enough := patience
		if !want {
			enough = 20 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), enough)
		defer cancel()
		if cq, err := b.recvChannel.Get(ctx); want != (cq == b.recvCQ && err == nil) || want == errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v; want an event: %v", cq, err, want)
		}
	}
	arm := func(solicitedOnly bool) {
		t.Helper()
		if err := b.recvCQ.Arm(solicitedOnly); err != nil {
			t.Fatal(err)
		}
	}
	poll := func(want int) {
		t.Helper()
		var wcs [16]uverbs.WC
		if n, err := b.recvCQ.Poll(wcs[:]); n != want || err != nil {
			t.Errorf("%d completions, %v; want %d", n, err, want)
		}
	}
	arm(false)
	send(0)
	event(true)
	send(0) // not armed
	event(false)
	arm(true)
	event(false) // there already
	send(0)
	event(false)
	send(uverbs.SendSolicited)
	event(true)
	send(uverbs.SendSolicited) // not armed
	event(false)
	poll(5)
}
