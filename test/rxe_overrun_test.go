//go:build vm

package test

import (
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeCQOverrun: a CQ that nobody polls loses completions, reports it, and
// keeps those it has. A QP whose send was lost goes on; one whose receive was lost
// ends, with any type of QP. Both CQs and, after RESET, the QP are as good as new.
func TestRxeCQOverrun(t *testing.T) {
	overrun := func(d *rxeDevice, cq *uverbs.CQ) {
		d.t.Helper()
		if ev := d.event(); ev.Type != uverbs.EventCQErr || ev.CQ != cq {
			d.t.Errorf("%+v", ev)
		}
	}
	holds := func(e *rxeEnd, cq *uverbs.CQ, first uint64) {
		e.t.Helper()
		var wcs [8]verbs.WC
		n, err := cq.Poll(wcs[:])
		if n != cq.Cap() || err != nil {
			e.t.Errorf("%d completions, %v; want %d", n, err, cq.Cap())
		}
		for i, wc := range wcs[:n] {
			if wc.WRID != first+uint64(i) || wc.Status != verbs.StatusSuccess {
				e.t.Errorf("completion %d: %+v", i, wc)
			}
		}
	}
	again := func(a, b *rxeEnd) {
		a.t.Helper()
		b.postRecv(2000, 0, 100)
		a.post(a.send(20, sendFrom, 8))
		if wc := a.next(a.sendCQ); wc.WRID != 20 || wc.Status != verbs.StatusSuccess {
			a.t.Errorf("afterwards: sent %+v", wc)
		}
		if wc := b.next(b.recvCQ); wc.WRID != 2000 || wc.Status != verbs.StatusSuccess {
			a.t.Errorf("afterwards: received %+v", wc)
		}
	}
	shrink := func(e *rxeEnd, cq *uverbs.CQ) {
		e.t.Helper()
		if err := cq.Resize(3); err != nil || cq.Cap() != 3 {
			e.t.Fatalf("%d entries, %v", cq.Cap(), err)
		}
	}
	exchange := func(a, b *rxeEnd, first, n uint64) {
		a.t.Helper()
		for i := first; i < first+n; i++ {
			b.postRecv(1000+i, 0, 100)
			a.post(a.send(i, sendFrom, 8))
		}
	}
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		onRxe(t, "sends", func(t *testing.T, d *rxeDevice) {
			a, b := d.pair(t, typ, rxeSetup{})
			shrink(a, a.sendCQ)
			exchange(a, b, 0, 4)
			overrun(d, a.sendCQ)
			holds(a, a.sendCQ, 0)
			for i := range uint64(4) {
				if wc := b.next(b.recvCQ); wc.WRID != 1000+i || wc.Status != verbs.StatusSuccess {
					t.Errorf("received %+v", wc)
				}
			}
			if s := a.state(); s != verbs.QPStateRTS {
				t.Errorf("the QP is in %v", s)
			}
			again(a, b)
		})
		onRxe(t, "receives", func(t *testing.T, d *rxeDevice) {
			a, b := d.pair(t, typ, rxeSetup{})
			shrink(b, b.recvCQ)
			exchange(a, b, 0, 3)
			for i := range 3 {
				a.sent(fmt.Sprintf("%d SEND success", i))
			}
			last := "3 SEND success"
			if typ == verbs.QPTypeRC { // it is not acknowledged
				a.giveUpSoon()
				last = "3 transport retries exceeded"
			}
			exchange(a, b, 3, 1)
			overrun(d, b.recvCQ)
			b.reaches(verbs.QPStateErr)
			holds(b, b.recvCQ, 1000)
			if got := outcome(a.next(a.sendCQ)); got != last {
				t.Errorf("sent %q, want %q", got, last)
			}
			for _, e := range []*rxeEnd{a, b} {
				e.modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
				e.connect(e.peer)
			}
			again(a, b)
		})
	})
}

// giveUpSoon has the sends from now on wait for the peer but milliseconds.
func (e *rxeEnd) giveUpSoon() {
	e.t.Helper()
	e.toSQD()
	if err := e.qp.Modify(&verbs.QPAttr{Timeout: 8, RetryCnt: 1}, verbs.QPAttrTimeout|verbs.QPAttrRetryCnt); err != nil {
		e.t.Fatal(err)
	}
	e.modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
}
