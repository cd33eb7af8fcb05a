package siw

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/verbs"
)

// hot returns the calls that programs make in their loops, on queues in plain memory. The
// fake kernel's part in them allocates nothing either.
func hot(t testing.TB) (w *world, calls map[string]func()) {
	w = connected(t)
	sgl := []verbs.SGE{{Addr: 1, Length: 2, LKey: 3}}
	send := []verbs.SendWR{{WRID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: sgl}}
	recv := []verbs.RecvWR{{WRID: 1, SGL: sgl}}
	wcs := make([]verbs.WC, 8)
	check := func(n, want int, err error) {
		if n != want || err != nil {
			t.Fatal(n, err)
		}
	}
	return w, map[string]func(){
		"PostSend": func() {
			n, err := w.qp.PostSend(send)
			check(n, 1, err)
			fakesiw.QPOf(w.kqp).TakeSend()
		},
		"PostRecv": func() {
			n, err := w.qp.PostRecv(recv)
			check(n, 1, err)
			fakesiw.QPOf(w.kqp).TakeRecv()
		},
		"PostRecv to an SRQ": func() {
			n, err := w.srq.PostRecv(recv)
			check(n, 1, err)
			fakesiw.SRQOf(w.ksrq).TakeRecv()
		},
		"Poll": func() {
			fakesiw.CQOf(w.kcq).Complete(abi.SiwCqe{QpId: 1})
			n, err := w.cq.Poll(wcs)
			check(n, 1, err)
		},
		"Poll of nothing": func() {
			n, err := w.cq.Poll(wcs)
			check(n, 0, err)
		},
		"Arm": func() { check(0, 0, w.cq.Arm(false)) },
	}
}

func TestNoAllocations(t *testing.T) {
	_, calls := hot(t)
	delete(calls, "Arm") // an armed CQ writes an event for the next completion
	for name, call := range calls {
		if n := testing.AllocsPerRun(200, call); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	_, calls = hot(t)
	if n := testing.AllocsPerRun(200, calls["Arm"]); n != 0 {
		t.Errorf("Arm allocates %v times", n)
	}
}
