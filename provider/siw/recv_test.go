package siw

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

func TestRecvEntry(t *testing.T) {
	w := newWorld(t, nil)
	for n := range 3 {
		wr := []uverbs.RecvWR{{WRID: uint64(n), SGL: sgl[:n]}}
		if _, err := w.qp.PostRecv(wr); err != nil {
			t.Fatal(err)
		}
		if _, err := w.srq.PostRecv(wr); err != nil {
			t.Fatal(err)
		}
		want := abi.SiwRqe{Id: uint64(n), Flags: abi.SIW_WQE_VALID, NumSge: uint8(n)}
		sge := sges(n)
		for _, take := range []func() (abi.SiwRqe, bool){w.kqp.SIW.TakeRecv, w.ksrq.SIW.TakeRecv} {
			got, _ := take()
			if diff := cmp.Diff(sge[:n], got.Sge[:n]); diff != "" {
				t.Error(diff)
			}
			got.Sge = want.Sge // stale ones behind the used are nobody's business
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestRefusedRecvs(t *testing.T) {
	w := newWorld(t, nil)
	wrs := []uverbs.RecvWR{{}, {SGL: append(sgl, sgl[0])}}
	if n, err := w.qp.PostRecv(wrs); n != 1 || !errors.Is(err, uverbs.ErrInvalidWR) || !strings.Contains(err.Error(), "4 SGEs, the queue takes 3") {
		t.Error(n, err)
	}
	if n, err := w.srq.PostRecv([]uverbs.RecvWR{{SGL: sgl}}); n != 0 || !errors.Is(err, uverbs.ErrInvalidWR) {
		t.Error(n, err)
	}
	for _, sgl := range [][]uverbs.SGE{{{Length: uverbs.BadLength}}, {{}, {Length: uverbs.BadLength}}} {
		for _, post := range []func([]uverbs.RecvWR) (int, error){w.qp.PostRecv, w.srq.PostRecv} {
			if n, err := post([]uverbs.RecvWR{{SGL: sgl}}); n != 0 || !errors.Is(err, uverbs.ErrInvalidWR) || !strings.Contains(err.Error(), "has BadLength") {
				t.Error(n, err)
			}
		}
	}
	if n, err := w.srq.PostRecv(make([]uverbs.RecvWR, depth+1)); n != depth || !errors.Is(err, uverbs.ErrQueueFull) {
		t.Error(n, err)
	}
	if n, err := w.qp.PostRecv(make([]uverbs.RecvWR, depth)); n != depth-1 || !errors.Is(err, uverbs.ErrQueueFull) {
		t.Error(n, err)
	}
}

func TestNoRecvQueue(t *testing.T) {
	var srq *uverbs.SRQ
	w := newWorld(t, nil)
	srq = w.srq
	for name, opts := range map[string]*uverbs.QPOptions{
		"with SRQ":    {SendCQ: w.cq, RecvCQ: w.cq, SRQ: srq, Cap: uverbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}},
		"MaxRecvWR 0": {SendCQ: w.cq, RecvCQ: w.cq, Cap: uverbs.QPCap{MaxSendWR: 1}},
	} {
		qp := must[*uverbs.QP](t)(w.pd.CreateQP(opts))
		if n, err := qp.PostRecv(make([]uverbs.RecvWR, 1)); n != 0 || !errors.Is(err, uverbs.ErrInvalidWR) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if err := qp.Modify(&uverbs.QPAttr{State: uverbs.QPStateErr}, uverbs.QPAttrState); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := qp.Close(); err != nil {
			t.Error(err)
		}
	}
}
