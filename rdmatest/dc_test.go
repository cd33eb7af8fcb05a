package rdmatest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// dct is a DCT with its SRQ, which has two receives, 1000 and 1001.
type dct struct {
	*node
	srq *uverbs.SRQ
	key uint64
}

// newDCT makes a DCT in RESET.
func newDCT(t *testing.T, d *rdmatest.Device, key uint64) *dct {
	t.Helper()
	n := &dct{node: &node{t: t}, key: key}
	n.dev = closed(t, must(uverbs.Open(d.Name()))(t))
	end := closed(t, must(n.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 64}))(t))
	n.pd, n.cq = end.PD, end.RecvCQ
	n.mr = must(n.pd.AllocMR(memory, all, nil))(t)
	n.gid = must(n.dev.ChooseGID(1, nil))(t)
	n.srq = must(n.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1}))(t)
	n.qp = must(end.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCT, SRQ: n.srq, DCKey: key}))(t)
	for i := range 2 {
		must(n.srq.PostRecv([]verbs.RecvWR{{WRID: uint64(1000 + i), SGL: []verbs.SGE{n.mr.SGE(i*recvSize, recvSize)}}}))(t)
	}
	return n
}

// start takes the DCT to RTR.
func (n *dct) start(access verbs.Access) *dct {
	n.t.Helper()
	if err := errors.Join(n.qp.Init(&verbs.QPAttr{Access: access}), n.qp.Connect(&verbs.QPAttr{AH: verbs.AHAttr{Global: true, SGIDIndex: n.gid.Index, HopLimit: 64}})); err != nil {
		n.t.Fatal(err)
	}
	return n
}

// newDCI makes a DCI in RTS.
func newDCI(t *testing.T, d *rdmatest.Device) *node {
	t.Helper()
	n := &node{t: t}
	n.dev = closed(t, must(uverbs.Open(d.Name()))(t))
	end := closed(t, must(n.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 64}))(t))
	n.pd, n.cq, n.ch = end.PD, end.SendCQ, end.SendCQ.Channel()
	n.mr = must(n.pd.AllocMR(memory, all, nil))(t)
	n.gid = must(n.dev.ChooseGID(1, nil))(t)
	n.qp = must(end.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCI, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 2, MaxInline: 64}}))(t)
	n.begin()
	return n
}

// begin takes a DCI from RESET to RTS.
func (n *node) begin() {
	n.t.Helper()
	if err := errors.Join(n.qp.Init(nil), n.qp.Connect(nil)); err != nil {
		n.t.Fatal(err)
	}
}

// to returns a request for a DCT, with its address.
func (n *node) toDCT(d *dct, wr verbs.SendWR) verbs.SendWR {
	n.t.Helper()
	wr.AH = must(n.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: d.gid.GID, SGIDIndex: n.gid.Index, HopLimit: 64}))(n.t)
	wr.RemoteQPN, wr.DCKey = d.qp.QPN(), d.key
	if wr.RKey == 0 {
		wr.RKey = d.mr.RKey()
	}
	return wr
}

// TestDC checks that one initiator speaks to two targets with other keys, one of which has two
// processes' worth of receives, with every operation.
func TestDC(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5, Hosts: make([]rdmatest.HostOptions, 3)})
	a := newDCI(t, f.Host(0).Device(0))
	for i, host := range []int{1, 2, 1} {
		b := newDCT(t, f.Host(host).Device(0), 0x1122334455667788+uint64(i))
		if n := b.qp.QPN(); n != 0 {
			t.Errorf("number %d before RTR", n)
		}
		if _, err := b.qp.Query(); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "only in RTR") {
			t.Errorf("query in RESET: %v", err)
		}
		b.start(all &^ verbs.AccessMWBind)
		if b.qp.QPN() == 0 {
			t.Errorf("%v has no number", b.qp)
		}
		attr := must(b.qp.Query())(t)
		if attr.State != verbs.QPStateRTR || attr.AH.SGIDIndex != b.gid.Index || attr.PathMTU != verbs.MTU1024 || attr.Access != all&^verbs.AccessMWBind {
			t.Errorf("%+v", attr)
		}
		addr := b.mr.Addr()
		from := []verbs.SGE{a.mr.SGE(sendFrom, 8)}
		binary.NativeEndian.PutUint64(a.mr.Bytes()[sendFrom:], 77)
		binary.NativeEndian.PutUint64(b.mr.Bytes()[2000:], 5)
		for _, wr := range []verbs.SendWR{
			{Opcode: verbs.OpRDMAWrite, Inline: []byte("inline"), RemoteAddr: addr + 1000},
			{Opcode: verbs.OpRDMAWrite, SGL: from, RemoteAddr: addr + 1008},
			{Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{a.mr.SGE(0, 6)}, RemoteAddr: addr + 1000},
			{Opcode: verbs.OpFetchAdd, SGL: []verbs.SGE{a.mr.SGE(8, 8)}, RemoteAddr: addr + 2000, CompareAdd: 3},
			{Opcode: verbs.OpCompareSwap, SGL: []verbs.SGE{a.mr.SGE(16, 8)}, RemoteAddr: addr + 2000, CompareAdd: 8, Swap: 9},
			{Opcode: verbs.OpSend, Inline: []byte("hello"), Flags: verbs.SendSolicited},
			{Opcode: verbs.OpRDMAWriteImm, Inline: []byte("imm"), RemoteAddr: addr + 1020, Imm: 0x12345678},
		} {
			a.post(a.toDCT(b, wr))
			if wc := a.next(); wc.Err() != nil || wc.QPN != a.qp.QPN() {
				t.Fatalf("%v: %+v", wr.Opcode, wc)
			}
		}
		at, of := a.mr.Bytes(), b.mr.Bytes()
		if string(of[1000:1006]) != "inline" || binary.NativeEndian.Uint64(of[1008:]) != 77 || string(at[:6]) != "inline" ||
			binary.NativeEndian.Uint64(at[8:]) != 5 || binary.NativeEndian.Uint64(at[16:]) != 8 || binary.NativeEndian.Uint64(of[2000:]) != 9 ||
			string(of[:5]) != "hello" || string(of[1020:1023]) != "imm" {
			t.Errorf("target %d has %q, and the initiator %q", i, of[1000:1024], at[:24])
		}
		wcs := make([]verbs.WC, 4)
		n := must(b.cq.Poll(wcs))(t)
		if n != 2 || wcs[0].WRID != 1000 || wcs[0].QPN != b.qp.QPN() || wcs[0].ByteLen != 5 ||
			wcs[1].WRID != 1001 || wcs[1].Opcode != verbs.WCRecvRDMAWithImm || wcs[1].Imm != 0x12345678 {
			t.Errorf("completions of target %d: %+v", i, wcs[:n])
		}
	}
	all := kernel.Registered()
	c := netlinkrdma.Client{Kernel: all[len(all)-1].Netlink()}
	for i, want := range []string{"{qp 1 0}", "{qp 0 0}"} { // without DCTs
		device := must(c.DeviceByName(f.Host(i).Device(0).Name()))(t).Index
		if got := fmt.Sprint(must(c.Resources(device, nil))(t)); !strings.Contains(got, want) {
			t.Errorf("netlink lists %s on host %d", got, i)
		}
	}
}

// TestDCFailures checks that a failed request ends the initiator, which a RESET brings back, and
// never the target.
func TestDCFailures(t *testing.T) {
	bubble(t, func(t *testing.T, _ *rdmatest.Fabric) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
		a := newDCI(t, f.Host(0).Device(0))
		b := newDCT(t, f.Host(1).Device(0), 0xffeeddcc).start(verbs.AccessRemoteWrite)
		ok := a.toDCT(b, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte("x"), RemoteAddr: b.mr.Addr()})
		for name, c := range map[string]struct {
			change func(*verbs.SendWR)
			want   verbs.Status
		}{
			"another key":    {func(wr *verbs.SendWR) { wr.DCKey++ }, verbs.StatusRetryExcErr},
			"high half":      {func(wr *verbs.SendWR) { wr.DCKey += 1 << 32 }, verbs.StatusRetryExcErr},
			"another number": {func(wr *verbs.SendWR) { wr.RemoteQPN += 100 }, verbs.StatusRetryExcErr},
			"another rkey":   {badRKey, verbs.StatusRemAccessErr},
			"beyond":         {func(wr *verbs.SendWR) { wr.RemoteAddr += memory }, verbs.StatusRemAccessErr},
			"a READ": {func(wr *verbs.SendWR) {
				wr.Opcode, wr.Inline, wr.SGL = verbs.OpRDMARead, nil, []verbs.SGE{a.mr.SGE(0, 1)}
			}, verbs.StatusRemInvReqErr},
			"local key": {func(wr *verbs.SendWR) { wr.Inline, wr.SGL = nil, []verbs.SGE{a.mr.SGE(0, 1)}; badLKey(wr) }, verbs.StatusLocProtErr},
			"longer than its": {func(wr *verbs.SendWR) {
				wr.Opcode, wr.Inline, wr.SGL = verbs.OpSend, nil, []verbs.SGE{a.mr.SGE(0, recvSize+1)}
			}, verbs.StatusRemInvReqErr},
		} {
			wr := ok
			c.change(&wr)
			a.post(wr)
			a.post(ok)
			if wc := a.next(); wc.Status != c.want {
				t.Errorf("%s: %v", name, wc)
			}
			if wc := a.next(); wc.Status != verbs.StatusWRFlushErr {
				t.Errorf("%s: then %v", name, wc)
			}
			if s := must(b.qp.Query())(t).State; s != verbs.QPStateRTR {
				t.Errorf("%s: the target is in %v", name, s)
			}
			if err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
				t.Fatal(err)
			}
			a.begin()
			a.post(ok)
			if wc := a.next(); wc.Err() != nil {
				t.Errorf("%s: after RESET: %v", name, wc)
			}
		}
		if err := b.qp.Close(); err != nil {
			t.Fatal(err)
		}
		a.post(ok)
		if wc := a.next(); wc.Status != verbs.StatusRetryExcErr {
			t.Errorf("to a DCT that is gone: %v", wc)
		}
	})
}

// TestDCReceives checks that messages wait for a receive, and DCTs may share an SRQ and a CQ.
func TestDCReceives(t *testing.T) {
	bubble(t, func(t *testing.T, _ *rdmatest.Fabric) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
		a := newDCI(t, f.Host(0).Device(0))
		b := newDCT(t, f.Host(1).Device(0), 1).start(0)
		second := &dct{node: &node{t: t, gid: b.gid, mr: b.mr, pd: b.pd, cq: b.cq}, srq: b.srq, key: 2}
		second.qp = must(b.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCT, RecvCQ: b.cq, SRQ: b.srq, DCKey: 2}))(t)
		second.start(0)
		for i, d := range []*dct{b, second, b} {
			if i == 2 {
				time.AfterFunc(time.Millisecond, func() {
					must(b.srq.PostRecv([]verbs.RecvWR{{WRID: 1002, SGL: []verbs.SGE{b.mr.SGE(0, recvSize)}}}))(t)
				})
			}
			a.post(a.toDCT(d, verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("x")}))
			if wc := a.next(); wc.Err() != nil {
				t.Fatal(wc)
			}
			var wcs [1]verbs.WC
			if n := must(b.cq.Poll(wcs[:]))(t); n != 1 || wcs[0].WRID != 1000+uint64(i) || wcs[0].QPN != d.qp.QPN() {
				t.Errorf("%d: %+v", i, wcs)
			}
		}
	})
}

// TestDCStreams checks that a failed request flushes what follows in its stream, and the others go on
// until too many have failed. RESET brings all of them back.
func TestDCStreams(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a, b := newDCI(t, f.Host(0).Device(0)), newDCT(t, f.Host(1).Device(0), 7).start(verbs.AccessRemoteWrite)
	if limits := must(a.dev.QueryDevice())(t).DCStreams; limits != (verbs.DCStreams{Concurrent: 16, Errored: 16}) {
		t.Errorf("the limits are %+v", limits)
	}
	a.qp = must(a.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCI, SendCQ: a.cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1, MaxInline: 64},
		DCStreams: verbs.DCStreams{Concurrent: 4, Errored: 2}}))(t)
	a.begin()
	write := func(stream uint16, rkey uint32) verbs.SendWR {
		wr := a.toDCT(b, verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, Inline: []byte{byte(stream)}, RKey: rkey})
		wr.RemoteAddr, wr.WRID, wr.DCStream = b.mr.Addr()+uint64(stream), uint64(stream), stream
		return wr
	}
	const bad = 0xbad00
	for round := range 2 {
		for i, step := range []struct {
			wrs  []verbs.SendWR
			want []verbs.Status
		}{
			{[]verbs.SendWR{write(1, 0), write(9, 0)}, []verbs.Status{verbs.StatusSuccess, verbs.StatusSuccess}},
			{[]verbs.SendWR{write(1, bad), write(2, 0), write(1, 0), write(0, 0)},
				[]verbs.Status{verbs.StatusRemAccessErr, verbs.StatusSuccess, verbs.StatusWRFlushErr, verbs.StatusSuccess}},
			{[]verbs.SendWR{write(1, 0), write(2, 0)}, []verbs.Status{verbs.StatusWRFlushErr, verbs.StatusSuccess}},
			{[]verbs.SendWR{write(3, bad), write(2, 0)}, []verbs.Status{verbs.StatusRemAccessErr, verbs.StatusWRFlushErr}},
		} {
			if attr := must(a.qp.Query())(t); attr.State != verbs.QPStateRTS {
				t.Errorf("round %d, step %d: the DCI is in %v", round, i, attr.State)
			}
			if n, err := a.qp.PostSend(step.wrs); n != len(step.wrs) || err != nil {
				t.Fatalf("round %d, step %d: %d, %v", round, i, n, err)
			}
			for k, want := range step.want {
				if wc := a.next(); wc.Status != want || wc.WRID != step.wrs[k].WRID {
					t.Fatalf("round %d, step %d: completion %d is %+v, want %v", round, i, k, wc, want)
				}
			}
		}
		if attr := must(a.qp.Query())(t); attr.State != verbs.QPStateErr {
			t.Errorf("round %d: the DCI is in %v", round, attr.State)
		}
		if err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState); err != nil {
			t.Fatal(err)
		}
		a.begin()
	}
	none := newDCI(t, f.Host(0).Device(0))
	wr := write(1, 0)
	_, post := none.qp.PostSend([]verbs.SendWR{wr})
	list := none.qp.Sends()
	list.SetDCAddr(wr.AH.(*uverbs.AH), 1, 2, 3)
	list.SendInline(1, 0, []byte("x"))
	_, ring := list.Ring()
	create := func(typ verbs.QPType, s verbs.DCStreams) error {
		_, err := a.pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: a.cq, DCStreams: s})
		return err
	}
	for want, err := range map[string]error{
		"DCStream of a DCI without streams":             post,
		"DCStream of a DCI without streams (QPOptions.": ring,
		"only a DCI has DCStreams":                      create(verbs.QPTypeRC, verbs.DCStreams{Concurrent: 2, Errored: 2}),
		"whose numbers are powers of two":               create(verbs.QPTypeDCI, verbs.DCStreams{Concurrent: 3, Errored: 2}),
		"but the device has at most 16 and 16":          create(verbs.QPTypeDCI, verbs.DCStreams{Concurrent: 32, Errored: 2}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestDCRefusals checks that what the DC types do not have is refused.
func TestDCRefusals(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	a := newDCI(t, f.Host(0).Device(0))
	b := newDCT(t, f.Host(1).Device(0), 1).start(0)
	_, noAH := a.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})
	_, noQueue := b.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})
	_, noRecv := b.qp.PostRecv([]verbs.RecvWR{{}})
	_, noRecvs := a.qp.PostRecv([]verbs.RecvWR{{}})
	list := a.qp.Sends()
	list.Send(1, 0, verbs.SGE{})
	_, noTarget := list.Ring()
	create := func(n *node, o uverbs.QPOptions) error {
		_, err := n.pd.CreateQP(&o)
		return err
	}
	for want, err := range map[string]error{
		"a DCI QP needs an open AH":             noAH,
		"DCI QP needs an open AH":               noTarget,
		"the QP has no queues":                  errors.Join(noQueue, noRecv),
		"no receive queue":                      noRecvs,
		"no DCT QP goes from RTR to RESET":      b.qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState),
		"no DCT QP goes from RTR to ERR":        b.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState),
		"RTS of a DCI QP can't take Access":     a.qp.Modify(&verbs.QPAttr{}, verbs.QPAttrAccess),
		"a DCT needs RecvCQ, and an SRQ":        create(b.node, uverbs.QPOptions{Type: verbs.QPTypeDCT, RecvCQ: b.cq}),
		"a DCT has no queues":                   create(b.node, uverbs.QPOptions{Type: verbs.QPTypeDCT, RecvCQ: b.cq, SRQ: b.srq, SendCQ: b.cq}),
		"only a DCT has a DCKey":                create(a, uverbs.QPOptions{Type: verbs.QPTypeDCI, SendCQ: a.cq, DCKey: 1}),
		"a QP of type DCI does not receive":     create(a, uverbs.QPOptions{Type: verbs.QPTypeDCI, SendCQ: a.cq, RecvCQ: a.cq}),
		"QPOptions must name SendCQ and RecvCQ": create(a, uverbs.QPOptions{Type: verbs.QPTypeDCI}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, kind := range []rdmatest.Kind{rdmatest.SIW, rdmatest.RXE, rdmatest.ERDMA, rdmatest.EFA} {
		dev := closed(t, must(uverbs.Open(rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}).Host(0).Device(0).Name()))(t))
		end := closed(t, must(dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 64}))(t))
		_, err := end.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeDCI, Cap: verbs.QPCap{MaxSendWR: 1}})
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "only mlx5 has DCI QPs") {
			t.Errorf("%v: %v", kind, err)
		}
	}
}
