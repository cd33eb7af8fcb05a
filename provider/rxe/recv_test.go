package rxe

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/abi"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestReceives compares every byte of a receive, in slots that held others.
func TestReceives(t *testing.T) {
	w := ready(t, verbs.QPTypeRC)
	posts := map[string]struct {
		post func([]verbs.RecvWR) (int, error)
		take func() (fakerxe.Recv, bool)
	}{
		"QP":  {w.qp.PostRecv, fakerxe.QPOf(w.kqp).TakeRecv},
		"SRQ": {w.srq.PostRecv, fakerxe.SRQOf(w.ksrq).TakeRecv},
	}
	for name, c := range posts {
		for i := range 3 * (depth + 1) {
			list := sgl[:i%3]
			wrs := make([]verbs.RecvWR, depth+1)
			for j := range wrs {
				wrs[j] = verbs.RecvWR{WRID: uint64(i)<<32 | uint64(j), SGL: list}
			}
			n, err := c.post(wrs)
			if n != depth || !errors.Is(err, verbs.ErrQueueFull) {
				t.Fatalf("%s: %d, %v", name, n, err)
			}
			for j := range depth {
				r, ok := c.take()
				if !ok {
					t.Fatalf("%s: no receive", name)
				}
				length := uint64(i%3) * 0x100
				if i%3 == 2 {
					length = 0x123
				}
				want := make([]byte, recvWQESize)
				for _, p := range []at{{0, 8, wrs[j].WRID}, {16, 4, length}, {20, 4, length}, {28, 4, uint64(i % 3)}} {
					copy(want[p.offset:], binary.LittleEndian.AppendUint64(nil, p.value)[:p.size])
				}
				if diff := cmp.Diff(want, abi.Bytes(&r.RxeRecvWqe)); diff != "" {
					t.Errorf("%s: %d (-want +got)\n%s", name, i, diff)
				}
				for k, sge := range list {
					if got := r.SGE[k]; got.Addr != sge.Addr || got.Length != sge.Length || got.Lkey != sge.LKey {
						t.Errorf("%s: SGE %d is %+v", name, k, got)
					}
				}
			}
		}
	}
}

func TestReceivesRefused(t *testing.T) {
	w := ready(t, verbs.QPTypeUC)
	for name, c := range map[string]struct {
		post func([]verbs.RecvWR) (int, error)
		sges int
	}{"QP": {w.qp.PostRecv, 3}, "SRQ": {w.srq.PostRecv, 2}} {
		bad := [][]verbs.SGE{make([]verbs.SGE, c.sges+1), {{Length: 1 << 31}, {Length: 1}}, {{Length: 1<<32 - 1}, {Length: 1}}}
		for i, sgl := range bad {
			if n, err := c.post([]verbs.RecvWR{{}, {SGL: sgl}}); n != 1 || !errors.Is(err, verbs.ErrInvalidWR) {
				t.Errorf("%s, %d: %d, %v", name, i, n, err)
			}
		}
		if n, err := c.post([]verbs.RecvWR{{}}); n != 0 || !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	shared := newWorld(t, verbs.QPTypeRC, func(w *world, o *uverbs.QPOptions) { o.SRQ = w.srq })
	shared.connect(t)
	if n, err := shared.qp.PostRecv([]verbs.RecvWR{{}}); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) {
		t.Errorf("to a QP with an SRQ: %d, %v", n, err)
	}
}

// TestResizeSRQ resizes a queue with receives on it, from every position.
func TestResizeSRQ(t *testing.T) {
	w := newWorld(t, verbs.QPTypeRC, nil)
	var posted, taken uint64
	post := func(n int) {
		t.Helper()
		for range n {
			if _, err := w.srq.PostRecv([]verbs.RecvWR{{WRID: posted}}); err != nil {
				t.Fatal(err)
			}
			posted++
		}
	}
	take := func(n int) {
		t.Helper()
		for range n {
			if r, ok := fakerxe.SRQOf(w.ksrq).TakeRecv(); !ok || r.WrId != taken {
				t.Fatalf("%d, %v; want %d", r.WrId, ok, taken)
			}
			taken++
		}
	}
	for round := range 8 {
		post(3)
		take(round % 3)
		if err := w.srq.Resize(20); err != nil || w.srq.MaxWR() != 31 {
			t.Fatal(w.srq.MaxWR(), err)
		}
		post(20)
		take(23 - round%3)
		if err := w.srq.Resize(depth); err != nil || w.srq.MaxWR() != depth {
			t.Fatal(w.srq.MaxWR(), err)
		}
		post(round % 3)
		take(round % 3)
	}
	if err := w.srq.SetLimit(2); err != nil || w.ksrq.Limit != 2 {
		t.Errorf("%d, %v", w.ksrq.Limit, err)
	}
	w.k.Fail("MMAP", 0, errGone)
	if err := w.srq.Resize(20); !errors.Is(err, errGone) {
		t.Error(err)
	}
	if n, err := w.srq.PostRecv(make([]verbs.RecvWR, 1)); n != 0 || !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("to a queue that was lost: %d, %v", n, err)
	}
}
