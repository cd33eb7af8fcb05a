package rxe

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
)

// hot returns the calls that stand in a program's loops, as users make them, on
// queues in plain memory. The fake kernel's part in them allocates nothing either.
func hot(t testing.TB) map[string]func() {
	w, ud := ready(t, uverbs.QPTypeRC), ready(t, uverbs.QPTypeUD)
	sgl := []uverbs.SGE{{Addr: 1, Length: 2, LKey: 3}}
	recv := []uverbs.RecvWR{{WRID: 1, SGL: sgl}}
	wcs := make([]uverbs.WC, 8)
	check := func(n, want int, err error) {
		if n != want || err != nil {
			t.Fatal(n, err)
		}
	}
	send := func(w *world, wr uverbs.SendWR) func() {
		wrs := []uverbs.SendWR{wr}
		return func() {
			n, err := w.qp.PostSend(wrs)
			check(n, 1, err)
			w.kqp.RXE.TakeSend()
		}
	}
	return map[string]func(){
		"PostSend":          send(w, uverbs.SendWR{Opcode: uverbs.OpSend, SGL: sgl}),
		"PostSend, inline":  send(w, uverbs.SendWR{Opcode: uverbs.OpRDMAWriteImm, Inline: make([]byte, 48)}),
		"PostSend, atomic":  send(w, uverbs.SendWR{Opcode: uverbs.OpFetchAdd, SGL: []uverbs.SGE{{Length: 8}}}),
		"PostSend, flush":   send(w, uverbs.SendWR{Opcode: uverbs.OpFlush, Flush: uverbs.Flush{Type: uverbs.FlushGlobal}}),
		"PostSend, binding": send(w, uverbs.SendWR{Opcode: uverbs.OpBindMW, Bind: &uverbs.BindMW{MW: w.mw, RKey: w.mw.RKey(), MR: w.mr, Length: 1}}),
		"PostSend on UD":    send(ud, uverbs.SendWR{Opcode: uverbs.OpSend, SGL: sgl, AH: ud.ah}),
		"PostRecv": func() {
			n, err := w.qp.PostRecv(recv)
			check(n, 1, err)
			w.kqp.RXE.TakeRecv()
		},
		"PostRecv to an SRQ": func() {
			n, err := w.srq.PostRecv(recv)
			check(n, 1, err)
			w.ksrq.RXE.TakeRecv()
		},
		"Poll": func() {
			w.kcq.RXE.Complete(abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, WcFlags: 7})
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
