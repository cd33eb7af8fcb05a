package siw

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func TestRecvEntry(t *testing.T) {
	w := newWorld(t, nil)
	for n := range 3 {
		wr := []verbs.RecvWR{{WRID: uint64(n), SGL: sgl[:n]}}
		if _, err := w.qp.PostRecv(wr); err != nil {
			t.Fatal(err)
		}
		if _, err := w.srq.PostRecv(wr); err != nil {
			t.Fatal(err)
		}
		want := abi.SiwRqe{Id: uint64(n), Flags: abi.SIW_WQE_VALID, NumSge: uint8(n)}
		sge := sges(n)
		for _, take := range []func() (abi.SiwRqe, bool){fakesiw.QPOf(w.kqp).TakeRecv, fakesiw.SRQOf(w.ksrq).TakeRecv} {
			got, _ := take()
			if diff := cmp.Diff(sge[:n], got.Sge[:n]); diff != "" {
				t.Error(diff)
			}
			got.Sge = want.Sge // stale SGEs after those in use do not matter
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestRefusedRecvs(t *testing.T) {
	w := newWorld(t, nil)
	wrs := []verbs.RecvWR{{}, {SGL: append(sgl, sgl[0])}}
	if n, err := w.qp.PostRecv(wrs); n != 1 || !errors.Is(err, verbs.ErrInvalidWR) || !strings.Contains(err.Error(), "4 SGEs, but the queue takes at most 3") {
		t.Error(n, err)
	}
	if n, err := w.srq.PostRecv([]verbs.RecvWR{{SGL: sgl}}); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) {
		t.Error(n, err)
	}
	for _, sgl := range [][]verbs.SGE{{{Length: verbs.BadLength}}, {{}, {Length: verbs.BadLength}}} {
		for _, post := range []func([]verbs.RecvWR) (int, error){w.qp.PostRecv, w.srq.PostRecv} {
			if n, err := post([]verbs.RecvWR{{SGL: sgl}}); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) || !strings.Contains(err.Error(), "has BadLength") {
				t.Error(n, err)
			}
		}
	}
	if n, err := w.srq.PostRecv(make([]verbs.RecvWR, depth+1)); n != depth || !errors.Is(err, verbs.ErrQueueFull) {
		t.Error(n, err)
	}
	if n, err := w.qp.PostRecv(make([]verbs.RecvWR, depth)); n != depth-1 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Error(n, err)
	}
}

func TestNoRecvQueue(t *testing.T) {
	var srq *uverbs.SRQ
	w := newWorld(t, nil)
	srq = w.srq
	for name, opts := range map[string]*uverbs.QPOptions{
		"with SRQ":    {SendCQ: w.cq, RecvCQ: w.cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}},
		"MaxRecvWR 0": {SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 1}},
	} {
		qp := providertest.Must[*uverbs.QP](t)(w.pd.CreateQP(opts))
		if n, err := qp.PostRecv(make([]verbs.RecvWR, 1)); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if err := qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := qp.Close(); err != nil {
			t.Error(err)
		}
	}
}
