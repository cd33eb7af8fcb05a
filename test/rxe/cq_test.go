//go:build vm

package rxe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeCompletions compares completions whole: what there is to say is said, and
// nothing is left in them of another.
func TestRxeCompletions(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		a, b := kit.OpenRxe(t).Pair(t, typ, kit.RxeSetup{})
		same := func(who string, want, got verbs.WC) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", who, diff)
			}
		}
		front, src := uint32(0), uint32(0)
		if typ == verbs.QPTypeUD {
			front, src = uverbs.GRHSize, a.QP.QPN()
		}
		for id, c := range []completion{
			{wr: verbs.SendWR{Opcode: verbs.OpSendImm, Imm: 0x01020304}, Sent: verbs.WCSend, got: verbs.WCRecv, flags: verbs.WCWithImm, size: 100},
			{wr: verbs.SendWR{Opcode: verbs.OpSend}, Sent: verbs.WCSend, got: verbs.WCRecv, size: 10},
			{wr: verbs.SendWR{Opcode: verbs.OpSendImm, Imm: 1<<32 - 1, Flags: verbs.SendSolicited}, Sent: verbs.WCSend, got: verbs.WCRecv, flags: verbs.WCWithImm},
			{wr: verbs.SendWR{Opcode: verbs.OpRDMAWriteImm, Imm: 5}, Sent: verbs.WCRDMAWrite, got: verbs.WCRecvRDMAWithImm, flags: verbs.WCWithImm, size: 300, not: verbs.QPTypeUD},
			{wr: verbs.SendWR{Opcode: verbs.OpRDMAWriteImm}, Sent: verbs.WCRDMAWrite, got: verbs.WCRecvRDMAWithImm, flags: verbs.WCWithImm, not: verbs.QPTypeUD},
			{wr: verbs.SendWR{Opcode: verbs.OpSend}, Sent: verbs.WCSend, got: verbs.WCRecv, size: 1000},
		} {
			if typ == c.not {
				continue
			}
			b.PostRecv(uint64(1000+id), 0, int(front)+1000)
			wr := a.To(c.wr)
			wr.WRID, wr.SGL = uint64(id), []verbs.SGE{a.MR.SGE(kit.SendFrom, int(c.size))}
			wr.Flags |= verbs.SendSignaled
			a.Post(wr)
			same(fmt.Sprint("sent ", id), verbs.WC{WRID: uint64(id), Opcode: c.Sent, QPN: a.QP.QPN(), ByteLen: c.size}, a.Next(a.SendCQ))
			same(fmt.Sprint("got ", id), verbs.WC{WRID: uint64(1000 + id), Opcode: c.got, QPN: b.QP.QPN(), SrcQPN: src, ByteLen: front + c.size,
				Flags: verbs.WCGRH | c.flags, Imm: c.wr.Imm}, b.Next(b.RecvCQ))
		}
		// The completion of the failed request names it and its error. Earlier ones do not.
		b.PostRecv(2000, 0, 100)
		for _, e := range []*kit.RxeEnd{a, b} {
			e.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		}
		wr := numbered(a, 77)
		a.Post(wr)
		same("flushed send", verbs.WC{WRID: 77, Status: verbs.StatusWRFlushErr, QPN: a.QP.QPN()}, a.Next(a.SendCQ))
		same("flushed receive", verbs.WC{WRID: 2000, Status: verbs.StatusWRFlushErr, QPN: b.QP.QPN()}, b.Next(b.RecvCQ))
	})
}

// completion is a send with its completions at both ends.
type completion struct {
	wr        verbs.SendWR
	Sent, got verbs.WCOpcode
	flags     verbs.WCFlags
	size      uint32
	not       verbs.QPType // has no such send
}

// TestRxeCQ makes CQs of several sizes, with and without a channel, on each
// completion vector, and impossible requests.
func TestRxeCQ(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	channel := kit.Must(d.CreateCompChannel())(t)
	kit.CloseLater(t, channel)
	for _, n := range []int{1, 10, 1000, int(d.Attr.MaxCQE)} {
		for _, opts := range []*uverbs.CQOptions{nil, {Channel: channel}} {
			cq := kit.Must(d.CreateCQ(n, opts))(t)
			if got, err := cq.Poll(make([]verbs.WC, 1)); cq.Cap() < n || got != 0 || err != nil {
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
		cq := kit.Must(d.CreateCQ(1, &uverbs.CQOptions{Channel: channel, CompVector: vector}))(t)
		kit.CloseLater(t, cq)
	}
	gone := kit.Must(d.CreateCompChannel())(t)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	create := func(n int, opts *uverbs.CQOptions) error { _, err := d.CreateCQ(n, opts); return err }
	refusedFor(t, "entries", func() error { return create(int(d.Attr.MaxCQE)+1, nil) })
	refusedFor(t, "entries", func() error { return create(1<<40, nil) })
	refusedFor(t, "a CQ has at least 1 entry", func() error { return create(0, nil) })
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
	onRxe(t, "traffic", func(t *testing.T, d *kit.RxeDevice) {
		const messages, window = 1000, 15
		a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
		stop := make(chan struct{})
		var resizers sync.WaitGroup
		var resized [2]atomic.Int32
		for i, cq := range []*uverbs.CQ{a.SendCQ, b.RecvCQ} {
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
			b.PostRecv(posted, 0, 8)
			a.Post(numbered(a, posted))
			posted++
		}
		for range window {
			post()
		}
		for i := uint64(0); i < posted; i++ {
			if wc := b.Next(b.RecvCQ); wc.WRID != i || wc.Imm != uint32(i) || wc.Status != verbs.StatusSuccess {
				t.Fatalf("receive %d: %+v", i, wc)
			}
			if wc := a.Next(a.SendCQ); wc.WRID != i || wc.Status != verbs.StatusSuccess {
				t.Fatalf("send %d: %+v", i, wc)
			}
			if more(posted) {
				post()
			}
		}
		close(stop)
		resizers.Wait()
	})
	onRxe(t, "armed", func(t *testing.T, d *kit.RxeDevice) {
		a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
		b.PostRecv(1, 0, 8)
		if err := b.RecvCQ.Arm(false); err != nil {
			t.Fatal(err)
		}
		if err := b.RecvCQ.Resize(1000); err != nil {
			t.Fatal(err)
		}
		a.Post(numbered(a, 1))
		hears(b, b.RecvCQ)
		b.Got("1 RECV success 0")
	})
	onRxe(t, "unread", func(t *testing.T, d *kit.RxeDevice) {
		a := d.End(t, verbs.QPTypeUD, kit.RxeSetup{})
		a.Connect(a)
		for _, size := range []int{1, 7} {
			if err := a.SendCQ.Resize(size); err != nil || a.SendCQ.Cap() < size {
				t.Fatalf("to %d: %d entries, %v", size, a.SendCQ.Cap(), err)
			}
		}
		for id := range uint64(6) {
			a.PostRecv(id, 0, 100)
			a.Post(a.Send(id, kit.SendFrom, 8))
		}
		for range 6 {
			a.Next(a.RecvCQ)
		}
		toSQD(a) // requests that had begun are completed there
		for _, size := range []int{1, 5} {
			if err := a.SendCQ.Resize(size); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("to %d with 6 unread: %v", size, err)
			}
		}
		for id := range uint64(6) {
			a.Sent(fmt.Sprintf("%d SEND success", id))
		}
	})
}

// numbered is a signaled send of nothing but a number.
func numbered(e *kit.RxeEnd, id uint64) verbs.SendWR {
	return e.To(verbs.SendWR{WRID: id, Opcode: verbs.OpSendImm, Imm: uint32(id), Flags: verbs.SendSignaled})
}

// polled returns the next completion of a CQ that has overflowed, which Wait does not wait for any more.
func polled(t *testing.T, cq *uverbs.CQ) verbs.WC {
	t.Helper()
	var wcs [1]verbs.WC
	kit.Until(t, "completed", func() bool { return kit.Must(cq.Poll(wcs[:]))(t) > 0 })
	return wcs[0]
}

// hears waits for the next event of a channel, which is a CQ's.
func hears(e *kit.RxeEnd, want *uverbs.CQ) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(e.T.Context(), kit.Patience)
	defer cancel()
	if cq, err := e.RecvCQ.Channel().Get(ctx); cq != want || err != nil {
		e.T.Errorf("an event of %p, %v; want %p", cq, err, want)
	}
}

// TestRxeCQOverrun checks that a CQ that nobody polls loses completions, reports it, and keeps those it has. A QP whose
// send was lost goes on; one whose receive was lost ends, with any type of QP. To Poll, both CQs and, after RESET, the
// QP are as good as new. Wait fails.
func TestRxeCQOverrun(t *testing.T) {
	overrun := func(d *kit.RxeDevice, cq *uverbs.CQ) {
		d.T.Helper()
		if ev := event(d); ev.Type != verbs.EventCQErr || ev.CQ != cq {
			d.T.Errorf("%+v", ev)
		}
	}
	holds := func(e *kit.RxeEnd, cq *uverbs.CQ, first uint64) {
		e.T.Helper()
		var wcs [8]verbs.WC
		n, err := cq.Poll(wcs[:])
		if n != cq.Cap() || err != nil {
			e.T.Errorf("%d completions, %v; want %d", n, err, cq.Cap())
		}
		for i, wc := range wcs[:n] {
			if wc.WRID != first+uint64(i) || wc.Status != verbs.StatusSuccess {
				e.T.Errorf("completion %d: %+v", i, wc)
			}
		}
	}
	again := func(a, b *kit.RxeEnd) {
		a.T.Helper()
		b.PostRecv(2000, 0, 100)
		a.Post(a.Send(20, kit.SendFrom, 8))
		if wc := polled(t, a.SendCQ); wc.WRID != 20 || wc.Status != verbs.StatusSuccess {
			a.T.Errorf("afterwards: sent %+v", wc)
		}
		if wc := polled(t, b.RecvCQ); wc.WRID != 2000 || wc.Status != verbs.StatusSuccess {
			a.T.Errorf("afterwards: received %+v", wc)
		}
	}
	shrink := func(e *kit.RxeEnd, cq *uverbs.CQ) {
		e.T.Helper()
		if err := cq.Resize(3); err != nil || cq.Cap() != 3 {
			e.T.Fatalf("%d entries, %v", cq.Cap(), err)
		}
	}
	exchange := func(a, b *kit.RxeEnd, first, n uint64) {
		a.T.Helper()
		for i := first; i < first+n; i++ {
			b.PostRecv(1000+i, 0, 100)
			a.Post(a.Send(i, kit.SendFrom, 8))
		}
	}
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		onRxe(t, "sends", func(t *testing.T, d *kit.RxeDevice) {
			a, b := d.Pair(t, typ, kit.RxeSetup{})
			shrink(a, a.SendCQ)
			exchange(a, b, 0, 4)
			overrun(d, a.SendCQ)
			holds(a, a.SendCQ, 0)
			for i := range uint64(4) {
				if wc := b.Next(b.RecvCQ); wc.WRID != 1000+i || wc.Status != verbs.StatusSuccess {
					t.Errorf("received %+v", wc)
				}
			}
			if s := state(a); s != verbs.QPStateRTS {
				t.Errorf("the QP is in %v", s)
			}
			again(a, b)
		})
		onRxe(t, "receives", func(t *testing.T, d *kit.RxeDevice) {
			a, b := d.Pair(t, typ, kit.RxeSetup{})
			shrink(b, b.RecvCQ)
			exchange(a, b, 0, 3)
			for i := range 3 {
				a.Sent(fmt.Sprintf("%d SEND success", i))
			}
			last := "3 SEND success"
			if typ == verbs.QPTypeRC { // it is not acknowledged
				giveUpSoon(a)
				last = "3 transport retries exceeded"
			}
			exchange(a, b, 3, 1)
			overrun(d, b.RecvCQ)
			reaches(b, verbs.QPStateErr)
			holds(b, b.RecvCQ, 1000)
			if got := outcome(a.Next(a.SendCQ)); got != last {
				t.Errorf("sent %q, want %q", got, last)
			}
			for _, e := range []*kit.RxeEnd{a, b} {
				e.Modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
				e.Connect(e.AtPeer)
			}
			again(a, b)
		})
	})
}

// giveUpSoon has the sends from now on wait for the peer but milliseconds.
func giveUpSoon(e *kit.RxeEnd) {
	e.T.Helper()
	toSQD(e)
	if err := e.QP.Modify(&verbs.QPAttr{AckTimeout: 4096 << 8, RetryCnt: 1}, verbs.QPAttrAckTimeout|verbs.QPAttrRetryCnt); err != nil {
		e.T.Fatal(err)
	}
	e.Modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
}

// TestRxeResizeCQ takes completions over into a larger and a smaller queue, from
// wherever they stand in the old one, and can't lose any. Sends complete
// in their own time, so the test waits for the completions that it resizes over.
func TestRxeResizeCQ(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{Cap: verbs.QPCap{MaxSendWR: 60, MaxRecvWR: 60}})
	if err := a.SendCQ.Resize(20); err != nil || a.SendCQ.Cap() < 20 {
		t.Fatalf("%d entries, %v", a.SendCQ.Cap(), err)
	}
	var posted, seen uint64
	send := func(n int) {
		t.Helper()
		if _, err := b.QP.PostRecv(make([]verbs.RecvWR, n)); err != nil {
			t.Fatal(err)
		}
		for range n {
			a.Post(verbs.SendWR{WRID: posted, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			posted++
		}
		for range n { // the last is received when the others are acknowledged, or about to be
			b.Next(b.RecvCQ)
		}
		a.Post(verbs.SendWR{WRID: posted, Opcode: verbs.OpRDMARead, RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey()})
	}
	poll := func(n int) {
		t.Helper()
		for range n {
			if wc := a.Next(a.SendCQ); wc.WRID != seen || wc.Status != verbs.StatusSuccess || wc.QPN != a.QP.QPN() {
				t.Errorf("completion %d: %+v", seen, wc)
			}
			seen++
		}
	}
	send(20)
	poll(15)
	send(12) // around the end of the ring
	if err := a.SendCQ.Resize(50); err != nil || a.SendCQ.Cap() < 50 {
		t.Errorf("%d entries, %v", a.SendCQ.Cap(), err)
	}
	poll(7)
	send(30)
	// None of the 40 may be missing for the kernel to refuse.
	kit.Until(t, "refused", func() bool {
		err := a.SendCQ.Resize(39)
		if err == nil && a.SendCQ.Cap() < 40 {
			t.Error("resized to fewer than there are")
		}
		return errors.Is(err, syscall.EINVAL)
	})
	if err := a.SendCQ.Resize(40); err != nil {
		t.Error(err)
	}
	if err := a.SendCQ.Resize(1 << 20); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	poll(40)
	if err := a.SendCQ.Resize(1); err != nil || a.SendCQ.Cap() < 1 {
		t.Errorf("%d entries, %v", a.SendCQ.Cap(), err)
	}
	send(1)
	poll(1)
}
