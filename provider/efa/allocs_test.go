package efa

import (
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// hot returns the calls that programs make in their loops. The device is memory, and the test writes
// its completions.
func hot(t testing.TB, wide bool) map[string]func() {
	w := newBareWorld(t, func(o *bareOptions) {
		o.cap = verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 2, MaxRecvSGE: 2}
		o.cqe = 64
		if wide {
			o.attr.DeviceCaps = allCaps
		}
	})
	unwatched := func(p **mmap.Page) {
		r, err := mmap.Anonymous((*p).Len(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		if *p, err = mmap.NewPage(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []**mmap.Page{&w.qp.sq.wqes, &w.qp.sq.doorbell.page, &w.qp.rq.doorbell.page, &w.cq.doorbell.page} {
		unwatched(p)
	}
	complete := func(queue uint8, id uint64) {
		var e [cqeSize]byte
		e[0], e[1], e[3], e[4], e[5] = byte(id), byte(id>>8), queue<<1, bareQPN&0xff, bareQPN>>8
		copy(e[6:12], abi.Bytes(&id)[2:])
		at := w.cq.rings[0].ci
		w.write(int(at%64), at/64, e)
	}
	wcs := make([]verbs.WC, 64)
	poll := func(want int) {
		if n, bad, err := w.cq.Poll(wcs); n != want || bad || err != nil {
			t.Fatal(n, bad, err)
		}
	}
	sgl := []verbs.SGE{{Addr: 1, Length: 2, LKey: 3}}
	var list []verbs.SendWR
	for range 16 {
		list = append(list, verbs.SendWR{Opcode: verbs.OpSend, SGL: sgl})
	}
	calls := map[string]func(){
		"PostRecv and Poll": func() {
			p := w.qp.rq.work.Load()
			id := p.generation | uint64(p.places[int(p.taken)&(len(p.places)-1)].free)
			if n, err := w.qp.PostRecv([]verbs.RecvWR{{SGL: sgl}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			complete(ofReceives, id)
			poll(1)
		},
		"Poll of nothing": func() { poll(0) },
		"Arm": func() {
			if err := w.cq.Arm(false); err != nil {
				t.Fatal(err)
			}
			w.cq.Event()
		},
	}
	for name, wrs := range map[string][]verbs.SendWR{
		"send": list[:1:1], "16 sends": list, "inline": {{Opcode: verbs.OpSend, Inline: make([]byte, 32)}},
		"write": {{Opcode: verbs.OpRDMAWriteImm, SGL: sgl}}, "read": {{Opcode: verbs.OpRDMARead, SGL: sgl}},
	} {
		for i := range wrs {
			wrs[i].Flags, wrs[i].AH = signaled, w.to
		}
		calls["PostSend of "+name+" and Poll"] = func() {
			p := w.qp.sq.work.Load()
			first := p.taken
			if n, err := w.qp.PostSend(wrs); n != len(wrs) || err != nil {
				t.Fatal(n, err)
			}
			at := w.cq.rings[0].ci
			for i := range wrs {
				complete(ofSends, p.generation|uint64(p.places[int(first+uint32(i))&(len(p.places)-1)].free))
				w.cq.rings[0].ci++
			}
			w.cq.rings[0].ci = at
			poll(len(wrs))
		}
	}
	return calls
}

func TestNoAllocations(t *testing.T) {
	for _, wide := range []bool{false, true} {
		for name, call := range hot(t, wide) {
			if n := testing.AllocsPerRun(500, call); n != 0 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
	}
}

func BenchmarkHot(b *testing.B) {
	for name, call := range hot(b, true) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				call()
			}
		})
	}
}
