package erdma

import (
	"testing"

	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// rig is a QP whose device is an unwatched page, and whose completions the test writes, so
// the figures are the provider's alone.
type rig struct {
	*qp
	cq   *cq
	ring mmap.Array[cqe]
	pi   uint32
}

func newRig(t testing.TB) *rig {
	memory := func(n int) *mmap.Region {
		r, err := mmap.Anonymous(n, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	page := func() *mmap.Page {
		p, err := mmap.NewPage(memory(4096), nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ctx := &erdmaContext{sdb: page(), rdb: page(), cdb: page(), atomics: true}
	ctx.records.alloc = func(n int, _ *mmap.AnonymousOptions) (*mmap.Region, error) { return memory(n), nil }
	ring := memory(64 * blockSize)
	consumer := providertest.Must[*mmap.LapConsumer[cqe]](t)(mmap.NewLapConsumer[cqe](ring, 64, 0, cqeOwner))
	r := &rig{cq: &cq{ctx: ctx, ring: *consumer, record: providertest.Must[record](t)(ctx.records.take()), num: 1}}
	r.ring = providertest.Must[mmap.Array[cqe]](t)(mmap.NewArray[cqe](ring, 0, 64))
	r.qp = &qp{ctx: ctx, num: 5, state: verbs.QPStateRTS, sendCQ: r.cq, recvCQ: r.cq, record: providertest.Must[record](t)(ctx.records.take()), flags: 5 << hdrQPNShift, maxSGE: 6, maxRecvSGE: 1}
	buf := memory(2 * 4096)
	if err := r.sq.init(buf, 0, 128); err != nil {
		t.Fatal(err)
	}
	if err := r.rq.init(buf, 4096, 128); err != nil {
		t.Fatal(err)
	}
	_ = ctx.qps.Set(5, r.qp)
	return r
}

// complete writes a completion, as the device does.
func (r *rig) complete(queue, index uint32) {
	e := r.ring.At(r.pi)
	hdr := queue << 8
	if r.pi&64 == 0 {
		hdr |= 1 << 31
	}
	*e = cqe{hdr: be32(hdr), index: be32(index & 0xffff), qpn: be32(5)}
	r.pi++
}

// hot returns the calls that programs make in their loops.
func hot(t testing.TB) map[string]func() {
	r := newRig(t)
	wcs := make([]verbs.WC, 64)
	poll := func(want int) {
		if n, bad, err := r.cq.Poll(wcs); n != want || bad || err != nil {
			t.Fatal(n, bad, err)
		}
	}
	sgl := []verbs.SGE{{Addr: 1, Length: 2, LKey: 3}}
	posts := map[string][]verbs.SendWR{
		"send":   {{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: sgl}},
		"write":  {{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: sgl}},
		"inline": {{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: make([]byte, 64)}},
		"atomic": {{Opcode: verbs.OpFetchAdd, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: 8}}}},
		"16 sends": func() (wrs []verbs.SendWR) {
			for range 16 {
				wrs = append(wrs, verbs.SendWR{Opcode: verbs.OpSend, SGL: sgl})
			}
			return wrs
		}(),
	}
	calls := map[string]func(){
		"PostRecv and Poll": func() {
			pi := r.rq.produced.Load()
			if n, err := r.PostRecv([]verbs.RecvWR{{SGL: sgl}}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			r.complete(1, pi)
			poll(1)
		},
		"Poll of nothing": func() { poll(0) },
		"Arm": func() {
			if err := r.cq.Arm(false); err != nil {
				t.Fatal(err)
			}
			r.cq.Event()
		},
	}
	for name, wrs := range posts {
		calls["PostSend of "+name+" and Poll"] = func() {
			if n, err := r.PostSend(wrs); n != len(wrs) || err != nil {
				t.Fatal(n, err)
			}
			last := r.sq.produced.Load() - 1
			for r.sq.wrs[last&(r.sq.depth-1)].blocks == 0 {
				last--
			}
			r.complete(0, last)
			poll(1)
		}
	}
	return calls
}

func TestNoAllocations(t *testing.T) {
	for name, call := range hot(t) {
		if n := testing.AllocsPerRun(500, call); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkHot(b *testing.B) {
	for name, call := range hot(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				call()
			}
		})
	}
}
