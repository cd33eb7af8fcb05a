//go:build vm

package test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestSRQ has two connections take receives from one queue and complete them on
// one CQ, until the limit event.
func TestSRQ(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	srq := must(k.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 16, MaxSGE: 1}))(t)
	closeLater(t, srq)
	var shared setup
	shared.cfg.PD = k.pd
	shared.cfg.QP = uverbs.QPOptions{SRQ: srq, RecvCQ: k.cq}
	c1, s1 := connect(t, setup{}, shared)
	c2, s2 := connect(t, setup{}, shared)
	if s1.PD() != k.pd || s1.RecvCQ() != k.cq {
		t.Error("the connection has its own PD or CQ")
	}
	for i := range 8 {
		if n, err := srq.PostRecv([]verbs.RecvWR{{WRID: uint64(1000 + i), SGL: []verbs.SGE{k.mr.SGE(i*recvSize, recvSize)}}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := srq.SetLimit(5); err != nil {
		t.Fatal(err)
	}
	sameSRQ(t, srq, verbs.SRQAttr{MaxWR: 16, MaxSGE: 1, Limit: 5})
	turns := []struct{ from, to *end }{{c1, s1}, {c2, s2}, {c2, s2}, {c1, s1}}
	for i, turn := range turns {
		turn.from.post(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte{byte(i), 1, 2}})
		wc := turn.to.next(k.cq)
		if got, want := brief(wc), fmt.Sprintf("%d RECV success 3", 1000+i); got != want || wc.QPN != turn.to.QP().Num() {
			t.Errorf("%q on QP %d, want %q on QP %d", got, wc.QPN, want, turn.to.QP().Num())
		}
		if got := k.mr.Bytes()[i*recvSize]; got != byte(i) {
			t.Errorf("message %d arrived where %d should be", got, i)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ev, err := k.dev.AsyncEvent(ctx)
	if err != nil || ev.Type != uverbs.EventSRQLimitReached || ev.SRQ != srq {
		t.Errorf("%+v, %v", ev, err)
	}
	// One event per arming, although siw still reports the limit.
	sameSRQ(t, srq, verbs.SRQAttr{MaxWR: 16, MaxSGE: 1, Limit: 5})
	c1.post(verbs.SendWR{Opcode: verbs.OpSend})
	s1.next(k.cq)
	k.overflow(t)
}

func sameSRQ(t *testing.T, srq *uverbs.SRQ, want verbs.SRQAttr) {
	t.Helper()
	if diff := cmp.Diff(want, *must(srq.Query())(t)); diff != "" {
		t.Errorf("SRQ (-want +got):\n%s", diff)
	}
}
