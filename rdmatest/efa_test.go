package rdmatest_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const efaAccess = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite

// efaPair has two queue pairs of a type on two hosts with EFA. The second has receives 1000 and 1001.
func efaPair(t *testing.T, o rdmatest.Options, typ verbs.QPType, change func(*verbs.QPAttr)) (f *rdmatest.Fabric, a, b *node) {
	t.Helper()
	o.Kind = rdmatest.EFA
	f = rdmatest.NewWith(t, &o)
	a = newNodeOn(t, f.Host(0).Device(0), typ, efaAccess, 0, uverbs.CQOptions{})
	b = newNodeOn(t, f.Host(1).Device(0), typ, efaAccess, 0, uverbs.CQOptions{})
	a.connect(b, change)
	b.connect(a, change)
	b.receive(1000, 0, recvSize)
	b.receive(1001, recvSize, recvSize)
	return f, a, b
}

// reach is an address handle of a queue pair's PD for a peer.
func (n *node) reach(peer *node) *uverbs.AH {
	n.t.Helper()
	return closed(n.t, must(n.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: peer.gid.GID, SGIDIndex: n.gid.Index}))(n.t))
}

// srd is a work request for a peer.
func (n *node) srd(ah *uverbs.AH, peer *node, op verbs.Opcode, size int) verbs.SendWR {
	wr := n.to(peer, op, size)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, peer.qp.QPN(), qkey
	return wr
}

// TestEFA carries out each operation, and the mistakes that end no queue pair.
func TestEFA(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(a, b *node, wr *verbs.SendWR)
		noAH     bool // the target has no address handle
		op       verbs.Opcode
		size     int
		his, own string
	}{
		"SEND":              {op: verbs.OpSend, size: 50, own: "1 SEND success", his: "1000 RECV success 50"},
		"SEND of nothing":   {op: verbs.OpSend, own: "1 SEND success", his: "1000 RECV success 0"},
		"SEND_IMM":          {op: verbs.OpSendImm, size: 50, own: "1 SEND success", his: "1000 RECV success 50"},
		"WRITE":             {op: verbs.OpRDMAWrite, size: 500, own: "1 RDMA_WRITE success"},
		"WRITE_IMM":         {op: verbs.OpRDMAWriteImm, size: 500, own: "1 RDMA_WRITE success", his: "1000 RECV_RDMA_WITH_IMM success 500"},
		"READ":              {op: verbs.OpRDMARead, size: 500, own: "1 RDMA_READ success"},
		"no address handle": {op: verbs.OpRDMARead, size: 500, noAH: true, own: "1 remote operation error"},
		"key": {op: verbs.OpRDMAWrite, size: 500, own: "1 remote access error",
			change: func(_, _ *node, wr *verbs.SendWR) { wr.RKey++ }},
		"range": {op: verbs.OpRDMARead, size: 500, own: "1 remote access error",
			change: func(_, b *node, wr *verbs.SendWR) { wr.RemoteAddr = b.mr.Addr() + memory - 499 }},
		"local key": {op: verbs.OpSend, size: 50, own: "1 local protection error", change: func(_, _ *node, wr *verbs.SendWR) { wr.SGL[0].LKey++ }},
		"too long":  {op: verbs.OpSend, size: recvSize + 1, own: "1 remote invalid request"},
		"number":    {op: verbs.OpSend, size: 50, own: "1 remote invalid datagram request", change: func(_, _ *node, wr *verbs.SendWR) { wr.RemoteQPN += 5 }},
		"Q_Key":     {op: verbs.OpSend, size: 50, own: "1 remote invalid datagram request", change: func(_, _ *node, wr *verbs.SendWR) { wr.RemoteQKey++ }},
		"inline": {op: verbs.OpSend, own: "1 SEND success", his: "1000 RECV success 5",
			change: func(_, _ *node, wr *verbs.SendWR) { wr.SGL, wr.Inline = nil, []byte("hello") }},
	} {
		t.Run(name, func(t *testing.T) {
			_, a, b := efaPair(t, rdmatest.Options{}, verbs.QPTypeSRD, nil)
			copy(a.mr.Bytes()[sendFrom:], strings.Repeat("data", 200))
			ah := a.reach(b)
			if !c.noAH {
				b.reach(a)
			}
			wr := a.srd(ah, b, c.op, c.size)
			wr.Imm = 0x01020304
			if c.change != nil {
				c.change(a, b, &wr)
			}
			if c.op == verbs.OpRDMARead {
				copy(b.mr.Bytes(), strings.Repeat("data", 200))
				clear(a.mr.Bytes()[sendFrom:])
			}
			a.post(wr)
			if wc := a.next(); outcome(wc) != c.own {
				t.Errorf("%v, want %s", outcome(wc), c.own)
			}
			if c.his != "" {
				wc := b.next()
				imm := uint32(0)
				if wc.Flags&verbs.WCWithImm != 0 {
					imm = 0x01020304
				}
				if outcome(wc) != c.his || wc.SrcQPN != a.qp.QPN() || wc.Imm != imm {
					t.Errorf("%+v, want %s", wc, c.his)
				}
			}
			if ok := strings.HasSuffix(c.own, "success"); ok && c.size > 0 && (string(b.mr.Bytes()[:4]) != "data" || string(a.mr.Bytes()[sendFrom:][:4]) != "data") {
				t.Errorf("%q, %q", b.mr.Bytes()[:4], a.mr.Bytes()[sendFrom:][:4])
			}
			// After an error, the next message arrives.
			a.post(a.srd(ah, b, verbs.OpSend, 10))
			if wc := a.next(); wc.Status != verbs.StatusSuccess {
				t.Errorf("the next send: %v", wc)
			}
			if got := a.story(); got != "; RTS" {
				t.Error(got)
			}
		})
	}
}

// TestEFAUnsolicited writes with immediate data to a queue pair whose receives are for messages alone.
func TestEFAUnsolicited(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.EFA, Hosts: make([]rdmatest.HostOptions, 1)})
	a := newNodeOn(t, f.Host(0).Device(0), verbs.QPTypeSRD, efaAccess, 0, uverbs.CQOptions{})
	end := closed(t, must(a.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 8}))(t))
	qp := must(end.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeSRD, Flags: verbs.QPUnsolicitedWriteRecv,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	b := &node{t: t, dev: a.dev, pd: end.PD, cq: end.SendCQ, qp: qp, gid: a.gid, mr: closed(t, must(end.PD.AllocMR(memory, efaAccess, nil))(t))}
	if err := qp.Init(&verbs.QPAttr{QKey: qkey}); err != nil {
		t.Fatal(err)
	}
	a.connect(b, nil)
	b.connect(a, nil)
	ah := a.reach(b)
	b.reach(a)
	wr := a.srd(ah, b, verbs.OpRDMAWriteImm, 70)
	wr.Imm = 7
	a.post(wr)
	if wc := b.next(); outcome(wc) != "0 RECV_RDMA_WITH_IMM success 70" || wc.Imm != 7 {
		t.Errorf("%+v", wc)
	}
	if wc := a.next(); wc.Status != verbs.StatusSuccess {
		t.Error(wc)
	}
}

// TestEFACounters checks that both ends count their own operations and those of the peer, and wait for the counts.
func TestEFACounters(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.EFA})
	var ends [2]*node
	var own, remote [2]*uverbs.CompCounter
	for i := range ends {
		n := newNodeOn(t, f.Host(i).Device(0), verbs.QPTypeSRD, efaAccess, 0, uverbs.CQOptions{})
		ends[i], own[i], remote[i] = n, must(n.dev.CreateCompCounter())(t), must(n.dev.CreateCompCounter())(t)
		t.Cleanup(func() { _ = n.qp.Close(); _ = own[i].Close(); _ = remote[i].Close() })
		if err := errors.Join(n.qp.AttachCompCounter(own[i], verbs.CompCounterSend|verbs.CompCounterRead|verbs.CompCounterWrite),
			n.qp.AttachCompCounter(remote[i], verbs.CompCounterRecv|verbs.CompCounterRemoteRead|verbs.CompCounterRemoteWrite)); err != nil {
			t.Fatal(err)
		}
	}
	a, b := ends[0], ends[1]
	a.connect(b, nil)
	b.connect(a, nil)
	b.receive(1000, 0, recvSize)
	b.receive(1001, recvSize, recvSize)
	ah := a.reach(b)
	b.reach(a)
	// A WRITE with immediate data is a WRITE of the peer, and takes a receive.
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead, verbs.OpRDMAWriteImm} {
		a.post(a.srd(ah, b, op, 10))
	}
	if n, err := own[0].Wait(t.Context(), 4); n != 4 || err != nil {
		t.Error(n, err)
	}
	if n, err := remote[1].Wait(t.Context(), 5); n != 5 || err != nil {
		t.Error(n, err)
	}
	wrong := a.srd(ah, b, verbs.OpRDMAWrite, 10)
	wrong.RKey++
	a.post(wrong)
	for failed := uint64(0); failed == 0; {
		failed = must(own[0].ReadErrors())(t)
	}
	for i, want := range [][2]uint64{{4, 0}, {0, 5}} {
		if got := [2]uint64{must(own[i].Read())(t), must(remote[i].Read())(t)}; got != want || must(remote[i].ReadErrors())(t) != 0 {
			t.Errorf("end %d: %v, want %v", i, got, want)
		}
	}
}

// TestEFAOrder checks that messages of one list arrive and complete in an order that the seed
// determines, unless the test wants the order of the list.
func TestEFAOrder(t *testing.T) {
	orders := make(map[string]bool)
	run := func(t *testing.T, o rdmatest.Options) string {
		_, a, b := efaPair(t, o, verbs.QPTypeSRD, nil)
		for i := range 6 {
			b.receive(uint64(1002+i), (2+i)*recvSize, recvSize)
		}
		ah := a.reach(b)
		wrs := make([]verbs.SendWR, 8)
		for i := range wrs {
			wrs[i] = a.srd(ah, b, verbs.OpSendImm, 10)
			wrs[i].WRID, wrs[i].Imm, wrs[i].Flags = uint64(i), uint32(i), verbs.SendSignaled
		}
		must(a.qp.PostSend(wrs))(t)
		var own, his []uint64
		for range wrs {
			own = append(own, a.next().WRID)
			his = append(his, uint64(b.next().Imm))
		}
		if all := []uint64{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(slices.Sorted(slices.Values(own)), all) || !slices.Equal(slices.Sorted(slices.Values(his)), all) {
			t.Errorf("%v, %v", own, his)
		}
		return fmt.Sprint(own, his)
	}
	for seed := range uint64(5) {
		first, second := run(t, rdmatest.Options{Seed: seed}), run(t, rdmatest.Options{Seed: seed})
		if first != second {
			t.Errorf("seed %d: %s, then %s", seed, first, second)
		}
		orders[first] = true
	}
	if len(orders) < 2 {
		t.Errorf("only %v", orders)
	}
	if got := run(t, rdmatest.Options{InOrder: true}); got != "[0 1 2 3 4 5 6 7] [0 1 2 3 4 5 6 7]" {
		t.Errorf("in order: %s", got)
	}
}

// TestEFANetwork checks what the network does to messages. None of it is an error of a queue pair.
func TestEFANetwork(t *testing.T) {
	for name, c := range map[string]struct {
		retries uint8
		before  func(f *rdmatest.Fabric, b *node)
		after   func(f *rdmatest.Fabric, a, b *node) // 5 s after the send
		own     string
		least   time.Duration
		most    time.Duration
	}{
		"latency": {before: func(f *rdmatest.Fabric, _ *node) { f.SetLatency(time.Second) }, own: "1 SEND success", least: 2 * time.Second, most: 2 * time.Second},
		"late":    {before: func(f *rdmatest.Fabric, _ *node) { f.SetReordering(1) }, own: "1 SEND success", least: 1, most: 2 * time.Millisecond},
		"loss": {before: func(f *rdmatest.Fabric, _ *node) { f.SetLoss(1) }, after: func(f *rdmatest.Fabric, _, _ *node) { f.SetLoss(0) },
			own: "1 SEND success", least: 5 * time.Second, most: 6 * time.Second},
		"no path":    {before: func(f *rdmatest.Fabric, _ *node) { f.Partition(f.Host(0), f.Host(1)) }, own: "1 response timeout", least: 1, most: time.Second},
		"no receive": {retries: 3, before: func(*rdmatest.Fabric, *node) {}, own: "1 receiver-not-ready retries exceeded", least: 1, most: time.Second},
		"a receive later": {retries: 7, before: func(*rdmatest.Fabric, *node) {}, after: func(_ *rdmatest.Fabric, _, b *node) { b.receive(2000, 0, recvSize) },
			own: "1 SEND success", least: 5 * time.Second, most: 6 * time.Second},
		"fault": {before: func(f *rdmatest.Fabric, _ *node) { f.Host(0).Device(0).FailSend(0, verbs.StatusRemAbortErr) }, own: "1 remote aborted"},
		"cut":   {before: func(f *rdmatest.Fabric, _ *node) { f.Host(0).Device(0).CutSend(0, 3) }, own: "1 remote aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, a, b := efaPair(t, rdmatest.Options{}, verbs.QPTypeSRD, func(attr *verbs.QPAttr) { attr.RNRRetry = c.retries })
				ah := a.reach(b)
				if c.retries > 0 { // takes the receives
					for range 2 {
						a.post(a.srd(ah, b, verbs.OpSend, 10))
						a.next()
						b.next()
					}
				}
				c.before(f, b)
				start := time.Now()
				a.post(a.srd(ah, b, verbs.OpSend, 10))
				if c.after != nil {
					time.AfterFunc(5*time.Second, func() { c.after(f, a, b) })
				}
				wc := a.next()
				if took := time.Since(start); outcome(wc) != c.own || took < c.least || took > c.most {
					t.Errorf("%s after %v, want %s", outcome(wc), took, c.own)
				}
				if c.after != nil {
					b.next()
				}
				if got := a.story(); got != "; RTS" {
					t.Error(got)
				}
			})
		})
	}
}

// TestEFAFlush checks that the error state flushes what waits for a receive.
func TestEFAFlush(t *testing.T) {
	_, a, b := efaPair(t, rdmatest.Options{}, verbs.QPTypeSRD, nil)
	ah := a.reach(b)
	for range 3 {
		a.post(a.srd(ah, b, verbs.OpSend, 10))
	}
	for range 2 {
		a.next()
		b.next()
	}
	if got := a.story(); got != "1 work request flushed; RTS" {
		t.Error(got)
	}
	if got := b.story(); got != "; RTS" {
		t.Error(got)
	}
}

// TestEFAAbort checks that the end of an address handle aborts the sends to it.
func TestEFAAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, a, b := efaPair(t, rdmatest.Options{}, verbs.QPTypeSRD, nil)
		f.SetLatency(time.Second)
		ah := must(a.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: b.gid.GID, SGIDIndex: a.gid.Index}))(t)
		a.post(a.srd(ah, b, verbs.OpSend, 10))
		if err := ah.Close(); err != nil {
			t.Fatal(err)
		}
		if wc := a.next(); wc.Status != verbs.StatusRemAbortErr {
			t.Error(wc)
		}
	})
}

// TestEFAUD sends datagrams, which arrive behind 40 bytes, or not at all.
func TestEFAUD(t *testing.T) {
	_, a, b := efaPair(t, rdmatest.Options{}, verbs.QPTypeUD, nil)
	copy(a.mr.Bytes()[sendFrom:], "datagram")
	for i, size := range []int{8, recvSize - 39, 8} {
		wr := a.to(b, verbs.OpSendImm, size)
		if i == 2 {
			wr.RemoteQKey++
		}
		a.post(wr)
		if wc := a.next(); wc.Status != verbs.StatusSuccess {
			t.Error(wc)
		}
	}
	if wc := b.next(); wc.ByteLen != 48 || string(b.mr.Bytes()[40:48]) != "datagram" || wc.SrcQPN != a.qp.QPN() {
		t.Errorf("%+v, %q", wc, b.mr.Bytes()[40:48])
	}
	if got := b.story(); got != "1001 work request flushed; RTS" {
		t.Error(got)
	}
}

// TestEFAConnectionManager checks that EFA has no connection manager, as on a kernel.
func TestEFAConnectionManager(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.EFA, Hosts: make([]rdmatest.HostOptions, 2)})
	ctx := f.Hosts()[0].Context(t.Context())
	address := net.JoinHostPort(f.Devices()[1].Addrs()[0].String(), "7471")
	if _, err := rdmacm.Dial(ctx, address); !errors.Is(err, syscall.ENODEV) {
		t.Error(err)
	}
	if _, err := rdmacm.Listen(ctx, address); !errors.Is(err, syscall.ENODEV) {
		t.Error(err)
	}
}
