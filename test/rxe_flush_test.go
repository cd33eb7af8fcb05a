//go:build vm

package test

import (
	"context"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeFlush has everything that is posted to a failed QP come back once, before
// and after anybody knows, and has the QP live again after RESET, though the CQs
// still hold remains of its first generation.
func TestRxeFlush(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		a, b := openRxe(t).pair(t, typ, rxeSetup{})
		for id := range uint64(3) {
			a.postRecv(id, 0, 100)
		}
		if err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
			t.Fatal(err)
		}
		for id := uint64(3); id < 6; id++ {
			a.postRecv(id, 0, 100)
		}
		a.post(a.send(10, sendFrom, 10), a.send(11, sendFrom, 10))
		flushed := func(cq *uverbs.CQ, n int) (ids []uint64) {
			for range n {
				wc := a.next(cq)
				if wc.Status != verbs.StatusWRFlushErr || wc.QPN != a.qp.Num() {
					t.Errorf("%+v", wc)
				}
				ids = append(ids, wc.WRID)
			}
			return ids
		}
		if ids := flushed(a.recvCQ, 6); !slices.Equal(ids, []uint64{0, 1, 2, 3, 4, 5}) {
			t.Errorf("receives %v", ids)
		}
		if ids := flushed(a.sendCQ, 2); !slices.Equal(ids, []uint64{10, 11}) {
			t.Errorf("sends %v", ids)
		}
		// If one completion of a batch is visible, so are the others.
		if _, err := a.qp.PostRecv([]verbs.RecvWR{{WRID: 5}, {WRID: 6}}); err != nil {
			t.Fatal(err)
		}
		a.post(a.send(11, sendFrom, 10), a.send(12, sendFrom, 10))
		flushed(a.recvCQ, 1)
		flushed(a.sendCQ, 1)
		for _, e := range []*rxeEnd{a, b} { // both, for the numbers of packets
			e.modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
			e.connect(e.peer)
		}
		if ids := flushed(a.recvCQ, 1); ids[0] != 6 {
			t.Errorf("receives %v", ids)
		}
		if ids := flushed(a.sendCQ, 1); ids[0] != 12 {
			t.Errorf("sends %v", ids)
		}
		b.postRecv(7, 0, 100)
		a.post(a.send(13, sendFrom, 10))
		a.sent("13 SEND success")
		if wc := b.next(b.recvCQ); wc.WRID != 7 || wc.Status != verbs.StatusSuccess {
			t.Errorf("%+v", wc)
		}
	})
}

// TestRxeReset: RESET discards posted sends and receives, so that
// the next life begins with nothing.
func TestRxeReset(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		d := openRxe(t)
		a, b := d.pair(t, typ, rxeSetup{peer: new(verbs.Access)})
		a.modify(verbs.QPAttr{State: verbs.QPStateSQD}, 0)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if ev, err := d.AsyncEvent(ctx); err != nil || ev.Type != uverbs.EventSQDrained || ev.QP != a.qp {
			t.Fatalf("%+v, %v", ev, err)
		}
		room := int(a.qp.Cap().MaxSendWR)
		for range room {
			a.post(a.send(66, sendFrom, 10))
		}
		for id := range uint64(3) {
			a.postRecv(id, 0, 100)
		}
		for _, e := range []*rxeEnd{a, b} {
			e.modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
			e.connect(e.peer)
		}
		for range 3 {
			b.postRecv(7, 0, 100)
			a.post(a.send(13, sendFrom, 10))
			a.sent("13 SEND success")
			if wc := b.next(b.recvCQ); wc.WRID != 7 || wc.Status != verbs.StatusSuccess {
				t.Errorf("%+v", wc)
			}
			a.postRecv(8, 0, 100)
			b.post(b.send(14, sendFrom, 10))
			b.sent("14 SEND success")
			if wc := a.next(a.recvCQ); wc.WRID != 8 || wc.Status != verbs.StatusSuccess {
				t.Errorf("%+v", wc)
			}
		}
	})
}
