package rxe

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/verbs"
)

// hot returns the calls that programs make in their loops, on queues in plain memory. The
// fake kernel's part in them allocates nothing either.
func hot(t testing.TB) map[string]func() {
	w, ud := ready(t, verbs.QPTypeRC), ready(t, verbs.QPTypeUD)
	sgl := []verbs.SGE{{Addr: 1, Length: 2, LKey: 3}}
	recv := []verbs.RecvWR{{WRID: 1, SGL: sgl}}
	wcs := make([]verbs.WC, 8)
	check := func(n, want int, err error) {
		if n != want || err != nil {
			t.Fatal(n, err)
		}
	}
	send := func(w *world, wr verbs.SendWR) func() {
		wrs := []verbs.SendWR{wr}
		return func() {
			n, err := w.qp.PostSend(wrs)
			check(n, 1, err)
			fakerxe.QPOf(w.kqp).TakeSend()
		}
	}
	return map[string]func(){
		"PostSend":          send(w, verbs.SendWR{Opcode: verbs.OpSend, SGL: sgl}),
		"PostSend, inline":  send(w, verbs.SendWR{Opcode: verbs.OpRDMAWriteImm, Inline: make([]byte, 48)}),
		"PostSend, atomic":  send(w, verbs.SendWR{Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{{Length: 8}}}),
		"PostSend, flush":   send(w, verbs.SendWR{Opcode: verbs.OpFlush, Flush: verbs.Flush{Type: verbs.FlushGlobal}}),
		"PostSend, binding": send(w, verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: w.mw, RKey: w.mw.RKey(), MR: w.mr, Length: 1}}),
		"PostSend on UD":    send(ud, verbs.SendWR{Opcode: verbs.OpSend, SGL: sgl, AH: ud.ah}),
		"PostRecv": func() {
			n, err := w.qp.PostRecv(recv)
			check(n, 1, err)
			fakerxe.QPOf(w.kqp).TakeRecv()
		},
		"PostRecv to an SRQ": func() {
			n, err := w.srq.PostRecv(recv)
			check(n, 1, err)
			fakerxe.SRQOf(w.ksrq).TakeRecv()
		},
		"Poll": func() {
			fakerxe.CQOf(w.kcq).Complete(abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, WcFlags: 7})
			n, err := w.cq.Poll(wcs)
			check(n, 1, err)
		},
		"Poll of nothing": func() {
			n, err := w.cq.Poll(wcs)
			check(n, 0, err)
		},
		"Arm": func() { check(0, 0, w.cq.Arm(true)) },
	}
}

func TestNoAllocations(t *testing.T) {
	for name, call := range hot(t) {
		if n := testing.AllocsPerRun(200, call); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
