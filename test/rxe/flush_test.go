//go:build vm

package rxe

import (
	"context"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeFlush has everything that is posted to a failed QP come back once, before
// and after anybody knows, and has the QP live again after RESET, though the CQs
// still hold remains of its first generation.
func TestRxeFlush(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		a, b := kit.OpenRxe(t).Pair(t, typ, kit.RxeSetup{})
		for id := range uint64(3) {
			a.PostRecv(id, 0, 100)
		}
		if err := a.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
			t.Fatal(err)
		}
		for id := uint64(3); id < 6; id++ {
			a.PostRecv(id, 0, 100)
		}
		a.Post(a.Send(10, kit.SendFrom, 10), a.Send(11, kit.SendFrom, 10))
		flushed := func(cq *uverbs.CQ, n int) (ids []uint64) {
			for range n {
				wc := a.Next(cq)
				if wc.Status != verbs.StatusWRFlushErr || wc.QPN != a.QP.QPN() {
					t.Errorf("%+v", wc)
				}
				ids = append(ids, wc.WRID)
			}
			return ids
		}
		if ids := flushed(a.RecvCQ, 6); !slices.Equal(ids, []uint64{0, 1, 2, 3, 4, 5}) {
			t.Errorf("receives %v", ids)
		}
		if ids := flushed(a.SendCQ, 2); !slices.Equal(ids, []uint64{10, 11}) {
			t.Errorf("sends %v", ids)
		}
		// If one completion of a batch is visible, so are the others.
		if _, err := a.QP.PostRecv([]verbs.RecvWR{{WRID: 5}, {WRID: 6}}); err != nil {
			t.Fatal(err)
		}
		a.Post(a.Send(11, kit.SendFrom, 10), a.Send(12, kit.SendFrom, 10))
		flushed(a.RecvCQ, 1)
		flushed(a.SendCQ, 1)
		for _, e := range []*kit.RxeEnd{a, b} { // both, for the numbers of packets
			e.Modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
			e.Connect(e.AtPeer)
		}
		if ids := flushed(a.RecvCQ, 1); ids[0] != 6 {
			t.Errorf("receives %v", ids)
		}
		if ids := flushed(a.SendCQ, 1); ids[0] != 12 {
			t.Errorf("sends %v", ids)
		}
		b.PostRecv(7, 0, 100)
		a.Post(a.Send(13, kit.SendFrom, 10))
		a.Sent("13 SEND success")
		if wc := b.Next(b.RecvCQ); wc.WRID != 7 || wc.Status != verbs.StatusSuccess {
			t.Errorf("%+v", wc)
		}
	})
}

// TestRxeReset checks that RESET discards posted sends and receives, so that the queues are empty afterwards.
func TestRxeReset(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		d := kit.OpenRxe(t)
		a, b := d.Pair(t, typ, kit.RxeSetup{AtPeer: new(verbs.Access)})
		a.Modify(verbs.QPAttr{State: verbs.QPStateSQD}, 0)
		ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
		defer cancel()
		if ev, err := d.AsyncEvent(ctx); err != nil || ev.Type != verbs.EventSQDrained || ev.QP != a.QP {
			t.Fatalf("%+v, %v", ev, err)
		}
		room := int(a.QP.Cap().MaxSendWR)
		for range room {
			a.Post(a.Send(66, kit.SendFrom, 10))
		}
		for id := range uint64(3) {
			a.PostRecv(id, 0, 100)
		}
		for _, e := range []*kit.RxeEnd{a, b} {
			e.Modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
			e.Connect(e.AtPeer)
		}
		for range 3 {
			b.PostRecv(7, 0, 100)
			a.Post(a.Send(13, kit.SendFrom, 10))
			a.Sent("13 SEND success")
			if wc := b.Next(b.RecvCQ); wc.WRID != 7 || wc.Status != verbs.StatusSuccess {
				t.Errorf("%+v", wc)
			}
			a.PostRecv(8, 0, 100)
			b.Post(b.Send(14, kit.SendFrom, 10))
			b.Sent("14 SEND success")
			if wc := a.Next(a.RecvCQ); wc.WRID != 8 || wc.Status != verbs.StatusSuccess {
				t.Errorf("%+v", wc)
			}
		}
	})
}
