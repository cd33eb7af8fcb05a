package rdmatest_test

import (
	"encoding/binary"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Atomics change the peer's memory and bring back the old value.
func TestAtomics(t *testing.T) {
	a, b := two(t, rdmatest.New(t), verbs.QPTypeRC, all)
	word := b.mr.Bytes()[memory-8:]
	binary.NativeEndian.PutUint64(word, 40)
	for _, c := range []struct {
		op                verbs.Opcode
		compare, swap     uint64
		fetched, thenhere uint64
	}{{verbs.OpFetchAdd, 2, 0, 40, 42}, {verbs.OpCompareSwap, 42, 7, 42, 7}, {verbs.OpCompareSwap, 42, 9, 7, 7}} {
		wr := a.to(b, c.op, 8)
		wr.RemoteAddr += memory - 8
		wr.CompareAdd, wr.Swap = c.compare, c.swap
		a.post(wr)
		if got := outcome(a.next()); got[len(got)-7:] != "success" {
			t.Error(got)
		}
		fetched, here := binary.NativeEndian.Uint64(a.mr.Bytes()[sendFrom:]), binary.NativeEndian.Uint64(word)
		if fetched != c.fetched || here != c.thenhere {
			t.Errorf("%v: fetched %d, now %d", c.op, fetched, here)
		}
	}
}

// A READ and a WRITE carry what they should.
func TestReadWrite(t *testing.T) {
	a, b := two(t, rdmatest.New(t), verbs.QPTypeRC, all)
	copy(a.mr.Bytes()[sendFrom:], "from here to there")
	a.post(a.to(b, verbs.OpRDMAWrite, 18))
	a.next()
	if got := string(b.mr.Bytes()[:18]); got != "from here to there" {
		t.Errorf("%q", got)
	}
	wr := a.to(b, verbs.OpRDMARead, 4)
	wr.RemoteAddr += 5
	a.post(wr)
	a.next()
	if got := string(a.mr.Bytes()[sendFrom:][:4]); got != "here" {
		t.Errorf("%q", got)
	}
}

// Queue pairs share receives, and the SRQ raises an event when few are left.
func TestSRQ(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) { shares(t, kind) })
	}
}

func shares(t *testing.T, kind rdmatest.Kind) {
	flags := map[rdmatest.Kind]verbs.WCFlags{rdmatest.RXE: verbs.WCGRH}[kind] // with every message over RoCE
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
	b := newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
	srq := closed(t, must(b.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(t))
	for i := range 2 {
		if _, err := srq.PostRecv([]verbs.RecvWR{{WRID: uint64(100 + i), SGL: []verbs.SGE{b.mr.SGE(0, recvSize)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := srq.SetLimit(1); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"100 RECV success 8", "101 RECV success 8"} {
		a := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all)
		peer := *b
		peer.qp = closed(t, must(b.pd.CreateQP(&uverbs.QPOptions{SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}}))(t))
		if err := peer.qp.Init(&verbs.QPAttr{}); err != nil {
			t.Fatal(err)
		}
		a.connect(&peer, nil)
		peer.connect(a, nil)
		a.post(a.to(&peer, verbs.OpSend, 8))
		if wc := b.next(); outcome(wc) != want || wc.Flags != flags {
			t.Errorf("message %d: %+v", i, wc)
		}
	}
	if ev, err := b.dev.AsyncEvent(t.Context()); err != nil || ev.Type != verbs.EventSRQLimitReached || ev.SRQ != srq {
		t.Error(ev, err)
	}
}

// A FLUSH needs the right to each of its types. Of a whole region its length means nothing.
func TestFlush(t *testing.T) {
	const both = verbs.FlushGlobal | verbs.FlushPersistent
	for _, c := range []struct {
		flush verbs.Flush
		want  string
	}{
		{verbs.Flush{Type: verbs.FlushGlobal, Length: 8}, "1 FLUSH success"},
		{verbs.Flush{Type: verbs.FlushGlobal, Length: memory + 1}, "1 remote access error"},
		{verbs.Flush{Type: verbs.FlushGlobal, Level: verbs.FlushMR, Length: memory + 1}, "1 FLUSH success"},
		{verbs.Flush{Type: verbs.FlushPersistent, Length: 8}, "1 remote access error"},
		{verbs.Flush{Type: both, Length: 8}, "1 remote access error"},
	} {
		const peer = all&^verbs.AccessMWBind | verbs.AccessFlushGlobal | verbs.AccessFlushPersistent
		f := rdmatest.New(t)
		a, b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNodeFor(t, f.Host(1).Device(0), verbs.QPTypeRC, everything, peer)
		a.meets(b)
		a.post(verbs.SendWR{WRID: 1, Opcode: verbs.OpFlush, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), Flush: c.flush})
		if got := outcome(a.next()); got != c.want {
			t.Errorf("%+v: %s, want %s", c.flush, got, c.want)
		}
	}
}

// A window opens a part of a region, until it is closed.
func TestWindow(t *testing.T) {
	a, b := two(t, rdmatest.New(t), verbs.QPTypeRC, all)
	mw := closed(t, must(b.pd.AllocMW(verbs.MWType1))(t))
	b.post(verbs.SendWR{WRID: 5, Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{MW: mw, RKey: uverbs.IncRKey(mw.RKey()), MR: b.mr, Addr: b.mr.Addr() + 8, Length: 8, Access: verbs.AccessRemoteWrite}})
	if got := outcome(b.next()); got != "5 BIND_MW success" {
		t.Fatal(got)
	}
	wr := a.to(b, verbs.OpRDMAWrite, 8)
	wr.RKey, wr.RemoteAddr = mw.RKey(), b.mr.Addr()+8
	a.post(wr)
	if got := outcome(a.next()); got != "1 RDMA_WRITE success" {
		t.Error(got)
	}
	wr.RemoteAddr++
	a.post(wr)
	if got := outcome(a.next()); got != "1 remote access error" {
		t.Error(got)
	}
}
