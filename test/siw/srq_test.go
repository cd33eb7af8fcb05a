//go:build vm

package siw

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestSRQ has two connections take receives from one queue and complete them on
// one CQ, until the limit event.
func TestSRQ(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	srq := kit.Must(k.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 16, MaxSGE: 1}))(t)
	kit.CloseLater(t, srq)
	var shared kit.Setup
	shared.Cfg.PD = k.pd
	shared.Cfg.QP = uverbs.QPOptions{SRQ: srq, RecvCQ: k.cq}
	c1, s1 := connect(t, kit.Setup{}, shared)
	c2, s2 := connect(t, kit.Setup{}, shared)
	if s1.PD() != k.pd || s1.RecvCQ() != k.cq {
		t.Error("the connection has its own PD or CQ")
	}
	for i := range 8 {
		if n, err := srq.PostRecv([]verbs.RecvWR{{WRID: uint64(1000 + i), SGL: []verbs.SGE{k.mr.SGE(i*kit.RecvSize, kit.RecvSize)}}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := srq.SetLimit(5); err != nil {
		t.Fatal(err)
	}
	sameSRQ(t, srq, verbs.SRQAttr{MaxWR: 16, MaxSGE: 1, Limit: 5})
	turns := []struct{ from, to *kit.End }{{c1, s1}, {c2, s2}, {c2, s2}, {c1, s1}}
	for i, turn := range turns {
		turn.from.Post(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte{byte(i), 1, 2}})
		wc := turn.to.Next(k.cq)
		if got, want := kit.Brief(wc), fmt.Sprintf("%d RECV success 3", 1000+i); got != want || wc.QPN != turn.to.QP().QPN() {
			t.Errorf("%q on QP %d, want %q on QP %d", got, wc.QPN, want, turn.to.QP().QPN())
		}
		if got := k.mr.Bytes()[i*kit.RecvSize]; got != byte(i) {
			t.Errorf("message %d arrived where %d should be", got, i)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	ev, err := k.dev.AsyncEvent(ctx)
	if err != nil || ev.Type != verbs.EventSRQLimitReached || ev.SRQ != srq {
		t.Errorf("%+v, %v", ev, err)
	}
	// One event per arming, although siw still reports the limit.
	sameSRQ(t, srq, verbs.SRQAttr{MaxWR: 16, MaxSGE: 1, Limit: 5})
	c1.Post(verbs.SendWR{Opcode: verbs.OpSend})
	s1.Next(k.cq)
	k.overflow(t)
}

func sameSRQ(t *testing.T, srq *uverbs.SRQ, want verbs.SRQAttr) {
	t.Helper()
	if diff := cmp.Diff(want, *kit.Must(srq.Query())(t)); diff != "" {
		t.Errorf("SRQ (-want +got):\n%s", diff)
	}
}
