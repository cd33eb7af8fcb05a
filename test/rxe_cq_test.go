//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeCQ makes CQs of several sizes, with and without a channel, on each
// completion vector, and impossible requests.
func TestRxeCQ(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	channel := must(d.CreateCompChannel())(t)
	closeLater(t, channel)
	for _, n := range []int{0, 1, 10, 1000, int(d.attr.MaxCQE)} {
		for _, opts := range []*uverbs.CQOptions{nil, {Channel: channel}} {
			cq := must(d.CreateCQ(n, opts))(t)
			if got, err := cq.Poll(make([]verbs.WC, 1)); cq.Cap() < max(n, 1) || got != 0 || err != nil {
				t.Errorf("asked for %d, got %d; a new CQ has %d completions, %v", n, cq.Cap(), got, err)
			}
			if err := cq.Arm(false); (opts == nil) != errors.Is(err, verbs.ErrNotSupported) || opts != nil && err != nil {
				t.Errorf("arm with %+v: %v", opts, err)
			}
			if err := cq.Close(); err != nil {
				t.Error(err)
			}
			if _, err := cq.Poll(make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("poll of a closed CQ: %v", err)
			}
		}
	}
	for vector := range d.CompVectors() {
		cq := must(d.CreateCQ(1, &uverbs.CQOptions{Channel: channel, CompVector: vector}))(t)
		closeLater(t, cq)
	}
	gone := must(d.CreateCompChannel())(t)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	create := func(n int, opts *uverbs.CQOptions) error { _, err := d.CreateCQ(n, opts); return err }
	refusedFor(t, "entries", func() error { return create(int(d.attr.MaxCQE)+1, nil) })
	refusedFor(t, "entries", func() error { return create(1<<40, nil) })
	refusedFor(t, "CompVector", func() error { return create(1, &uverbs.CQOptions{CompVector: d.CompVectors()}) })
	refusedFor(t, "CompVector", func() error { return create(1, &uverbs.CQOptions{CompVector: 1<<32 - 1}) })
	if err := create(1, &uverbs.CQOptions{Channel: gone}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("on a closed channel: %v", err)
	}
	if err := channel.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Errorf("channel of CQs closed: %v", err)
	}
}

// TestRxeCQResize changes both CQs of a connection again and again while messages
// go over it; none is lost, doubled or out of order, and no waiter is forgotten.
func TestRxeCQResize(t *testing.T) {
	onRxe(t, "traffic", func(t *testing.T, d *rxeDevice) {
		const messages, window = 1000, 15
		a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{})
		stop := make(chan struct{})
		var resizers sync.WaitGroup
		var resized [2]atomic.Int32
		for i, cq := range []*uverbs.CQ{a.sendCQ, b.recvCQ} {
			resizers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond): // the others want the CQ, too
					}
					size := 2*window + int(resized[i].Add(1))*37%500
					if err := cq.Resize(size); err != nil || cq.Cap() < size {
						t.Errorf("to %d: %d entries, %v", size, cq.Cap(), err)
					}
				}
			})
		}
		// More messages go while either CQ was not resized much.
		more := func(i uint64) bool { return i < messages || resized[0].Load() < 10 || resized[1].Load() < 10 }
		posted := uint64(0)
		post := func() {
			b.postRecv(posted, 0, 8)
			a.post(a.numbered(posted))
			posted++
		}
		for range window {
			post()
		}
		for i := uint64(0); i < posted; i++ {
			if wc := b.next(b.recvCQ); wc.WRID != i || wc.Imm != uint32(i) || wc.Status != verbs.StatusSuccess {
				t.Fatalf("receive %d: %+v", i, wc)
			}
			if wc := a.next(a.sendCQ); wc.WRID != i || wc.Status != verbs.StatusSuccess {
				t.Fatalf("send %d: %+v", i, wc)
			}
			if more(posted) {
				post()
			}
		}
		close(stop)
		resizers.Wait()
	})
	onRxe(t, "armed", func(t *testing.T, d *rxeDevice) {
		a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{})
		b.postRecv(1, 0, 8)
		if err := b.recvCQ.Arm(false); err != nil {
			t.Fatal(err)
		}
		if err := b.recvCQ.Resize(1000); err != nil {
			t.Fatal(err)
		}
		a.post(a.numbered(1))
		b.hears(b.recvCQ)
		b.got("1 RECV success 0")
	})
	onRxe(t, "unread", func(t *testing.T, d *rxeDevice) {
		a := d.end(t, verbs.QPTypeUD, rxeSetup{})
		a.connect(a)
		for _, size := range []int{1, 7} {
			if err := a.sendCQ.Resize(size); err != nil || a.sendCQ.Cap() < size {
				t.Fatalf("to %d: %d entries, %v", size, a.sendCQ.Cap(), err)
			}
		}
		for id := range uint64(6) {
			a.postRecv(id, 0, 100)
			a.post(a.send(id, sendFrom, 8))
		}
		for range 6 {
			a.next(a.recvCQ)
		}
		a.toSQD() // requests that had begun are completed there
		for _, size := range []int{1, 5} {
			if err := a.sendCQ.Resize(size); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("to %d with 6 unread: %v", size, err)
			}
		}
		for id := range uint64(6) {
			a.sent(fmt.Sprintf("%d SEND success", id))
		}
	})
}

// numbered is a signaled send of nothing but a number.
func (e *rxeEnd) numbered(id uint64) verbs.SendWR {
	return e.to(verbs.SendWR{WRID: id, Opcode: verbs.OpSendImm, Imm: uint32(id), Flags: verbs.SendSignaled})
}

// hears waits for the next event of a channel, which is a CQ's.
func (e *rxeEnd) hears(want *uverbs.CQ) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	if cq, err := e.recvChannel.Get(ctx); cq != want || err != nil {
		e.t.Errorf("an event of %p, %v; want %p", cq, err, want)
	}
}
