package mlx5

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// rig is a QP whose device is an unwatched page, and whose completions the test writes, so
// the figures are the provider's alone.
type rig struct {
	*qp
	frames *frameQP // the same QP
	cq     *cq
	pi     uint32
}

const rigQueue = 256

type rigMemory struct{ driver.Memory }

func (rigMemory) Alloc(n int, o *mmap.AnonymousOptions) (*mmap.Region, error) {
	return mmap.Anonymous(n, o)
}

func newRig(t testing.TB) *rig {
	f := &frameQP{qp{typ: verbs.QPTypeRC}}
	r := newRigOf(t, &f.qp)
	r.frames = f
	return r
}

// newRigOf makes a rig of a QP that has only its type.
func newRigOf(t testing.TB, q *qp) *rig {
	memory := func(n int) *mmap.Region {
		r := providertest.Must[*mmap.Region](t)(mmap.Anonymous(n, nil))
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	page := providertest.Must[*mmap.Page](t)(mmap.NewPage(memory(4096), nil))
	ctx := &mlx5Context{indexed: true, atomics: true}
	ctx.limits.MaxSqDescSz, ctx.limits.MaxRqDescSz, ctx.limits.MaxSendWqebb, ctx.limits.MaxRecvWr = 1024, 512, 1<<15, 1<<15
	ctx.records = records{page: 4096, line: 64, alloc: func(n int, _ *mmap.AnonymousOptions) (*mmap.Region, error) { return memory(n), nil }}
	ctx.registers.cq = page
	r := &rig{qp: q, cq: newCQ(ctx, 1)}
	r.cq.record = providertest.Must[record](t)(ctx.records.take())
	if err := r.cq.alloc(rigMemory{}, rigQueue-1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cq.region.Close() })
	q.ctx, q.num, q.sendCQ, q.recvCQ, q.state = ctx, 5, r.cq, r.cq, verbs.QPStateRTS
	q.record, q.register = providertest.Must[record](t)(ctx.records.take()), &register{page: page, at: uarSend, half: 256}
	size, err := ctx.sizes(&driver.CreateQP{Type: q.typ, Cap: verbs.QPCap{MaxSendWR: rigQueue, MaxRecvWR: rigQueue, MaxSendSGE: 4, MaxRecvSGE: 1, MaxInline: 64}})
	if err != nil {
		t.Fatal(err)
	}
	queues := memory(size.receiveBytes() + size.sendBytes())
	if err := r.layOut(queues, queues, size.receiveBytes(), &size); err != nil {
		t.Fatal(err)
	}
	r.maxInline = size.cap.MaxInline
	r.preparePlain()
	r.index = providertest.Must[uint32](t)(ctx.qps.Put(r.qp))
	return r
}

// complete writes a completion, as the device does.
func (r *rig) complete(op, index uint32) {
	e := r.cq.ring.At(r.pi)
	e.queue, e.opQPN = be32(r.index), be32(r.num)
	last := uint32(be16(uint16(index))) | op<<cqeOpShift
	if r.pi&r.cq.entries != 0 {
		last |= cqeOwner
	}
	e.counterOwn.Store(last)
	r.pi++
}

// hot returns the calls that programs make in their loops, in lists of n.
func hot(t testing.TB, n int) map[string]func() {
	r := newRig(t)
	wcs := make([]verbs.WC, 64)
	poll := func(want int) {
		if n, bad, err := r.cq.Poll(wcs); n != want || bad || err != nil {
			t.Fatal(n, bad, err)
		}
	}
	sgl := []verbs.SGE{{Addr: 1, Length: 64, LKey: 3}}
	inline := make([]byte, 64)
	recvs := make([]verbs.RecvWR, n)
	for i := range recvs {
		recvs[i].SGL = sgl
	}
	calls := map[string]func(){
		"PostRecv and Poll": func() {
			head := r.rq.head
			if k, err := r.PostRecv(recvs); k != n || err != nil {
				t.Fatal(k, err)
			}
			for i := range n {
				r.complete(cqeRecv, head+uint32(i))
			}
			poll(n)
		},
		"Poll of nothing": func() { poll(0) },
		"Arm": func() {
			if err := r.cq.Arm(false); err != nil {
				t.Fatal(err)
			}
			r.cq.Event()
		},
	}
	for name, wr := range map[string]verbs.SendWR{
		"SEND":         {Opcode: verbs.OpSend, SGL: sgl},
		"WRITE":        {Opcode: verbs.OpRDMAWrite, SGL: sgl},
		"WRITE inline": {Opcode: verbs.OpRDMAWrite, Inline: inline},
		"FETCH_ADD":    {Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{{Addr: 1, Length: 8}}},
	} {
		wrs := make([]verbs.SendWR, n)
		for i := range wrs {
			wrs[i] = wr
		}
		wrs[n-1].Flags = verbs.SendSignaled
		complete := func() {
			last := r.sq.pi - 1
			for r.sq.sent[last&(r.sq.blocks-1)].number != r.sq.produced.Load()-1 {
				last--
			}
			r.complete(cqeRequest, last)
			poll(1)
		}
		calls["PostSend of "+name+" and Poll"] = func() {
			if k, err := r.PostSend(wrs); k != n || err != nil {
				t.Fatal(k, err)
			}
			complete()
		}
		if !canBuild(&wr) {
			continue
		}
		calls[name+", built, and Poll"] = func() {
			r.StartSends(nil)
			for i := range wrs {
				wr := &wrs[i]
				if wr.Inline != nil {
					r.BuildWriteInline(wr.WRID, wr.Flags, wr.Inline, wr.RemoteAddr, wr.RKey)
				} else if wr.Opcode == verbs.OpSend {
					r.BuildSend(wr.WRID, wr.Flags, wr.SGL[0])
				} else {
					r.BuildWrite(wr.WRID, wr.Flags, wr.SGL[0], wr.RemoteAddr, wr.RKey)
				}
			}
			if k, err := r.RingSends(); k != n || err != nil {
				t.Fatal(k, err)
			}
			complete()
		}
	}
	return calls
}

// hotTo is hot for the sends of a DCI and the receives of an SRQ, as DCTs have.
func hotTo(t testing.TB, n int) map[string]func() {
	d := &dci{qp: qp{typ: verbs.QPTypeDCI}}
	r := newRigOf(t, &d.qp)
	to := newAH(t, newWorld(t, nil))
	data, sge := make([]byte, 64), verbs.SGE{Addr: 1, Length: 64, LKey: 3}
	calls := make(map[string]func())
	for name, build := range map[string]func(flags verbs.SendFlags){
		"SEND":         func(f verbs.SendFlags) { d.BuildSend(1, f, sge) },
		"SEND inline":  func(f verbs.SendFlags) { d.BuildSendInline(1, f, data) },
		"WRITE":        func(f verbs.SendFlags) { d.BuildWrite(1, f, sge, 2, 3) },
		"WRITE inline": func(f verbs.SendFlags) { d.BuildWriteInline(1, f, data, 2, 3) },
	} {
		calls[name+" to a DCT, built"] = func() {
			d.StartSends(nil)
			d.BuildTarget(to, 4, 5, 0)
			for range n - 1 {
				build(0)
			}
			build(verbs.SendSignaled)
			if k, err := d.RingSends(); k != n || err != nil {
				t.Fatal(k, err)
			}
			mmap.StoreRelease(&r.sq.completed, r.sq.produced.Load())
		}
	}
	for name, wr := range map[string]verbs.SendWR{
		"SEND":         {Opcode: verbs.OpSend, SGL: []verbs.SGE{sge}},
		"WRITE inline": {Opcode: verbs.OpRDMAWrite, Inline: data},
		"READ":         {Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{sge}},
	} {
		wr.AH, wr.RemoteQPN, wr.DCKey = to, 4, 5
		wrs := slices.Repeat([]verbs.SendWR{wr}, n)
		calls["PostSend of "+name+" to a DCT"] = func() {
			if k, err := d.PostSend(wrs); k != n || err != nil {
				t.Fatal(k, err)
			}
			mmap.StoreRelease(&r.sq.completed, r.sq.produced.Load())
		}
	}
	s := &srq{ctx: r.ctx, lock: new(driver.Lock), size: 2, maxSGE: 1, record: r.record, entries: make([]sharedReceive, rigQueue), tail: rigQueue - 1}
	memory := providertest.Must[*mmap.Region](t)(mmap.Anonymous(rigQueue*2*segmentSize, nil))
	t.Cleanup(func() { _ = memory.Close() })
	s.segs = providertest.Must[mmap.Array[segment]](t)(mmap.NewArray[segment](memory, 0, rigQueue*2))
	for i := range uint16(rigQueue) {
		s.link(i, (i+1)%rigQueue)
	}
	recvs := slices.Repeat([]verbs.RecvWR{{WRID: 1, SGL: []verbs.SGE{sge}}}, n)
	var wc verbs.WC
	calls["PostRecv of an SRQ"] = func() {
		first := s.head
		if k, err := s.PostRecv(recvs); k != n || err != nil {
			t.Fatal(k, err)
		}
		for range n {
			next := s.entries[first].next
			if !s.complete(first, nil, &wc) {
				t.Fatalf("nothing was received by %d", first)
			}
			first = next
		}
	}
	return calls
}

func TestNoAllocations(t *testing.T) {
	for _, n := range []int{1, 16} {
		calls := hot(t, n)
		maps.Copy(calls, hotTo(t, n))
		for name, call := range calls {
			if allocs := testing.AllocsPerRun(500, call); allocs != 0 {
				t.Errorf("%s, %d at once, allocates %v times", name, n, allocs)
			}
		}
	}
}

func BenchmarkHot(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		calls := hot(b, n)
		maps.Copy(calls, hotTo(b, n))
		for name, call := range calls {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					call()
				}
			})
		}
	}
}
