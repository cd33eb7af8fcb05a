//go:build vm

package test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// byHand connects two ends with the two calls, for the MTU of the port.
func byHand(t *testing.T, a, b *rxeEnd) {
	t.Helper()
	for _, e := range []*rxeEnd{a, b} {
		if err := e.qp.Init(&verbs.QPAttr{Access: e.access, QKey: rxeQKey}); err != nil {
			t.Fatal(err)
		}
	}
	for e, peer := range map[*rxeEnd]*rxeEnd{a: b, b: a} {
		e.peer = peer
		to := e.address(peer)
		if err := e.qp.Connect(&verbs.QPAttr{AH: to, DestQPN: peer.qp.Num(), RQPSN: 5, SQPSN: 5}); err != nil {
			t.Fatal(err)
		}
		e.ah = must(e.dev.pd.CreateAH(&to))(t)
		closeLater(t, e.ah)
	}
}

// TestRxeConnect makes connections with the two calls.
func TestRxeConnect(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		a, b := d.end(t, typ, rxeSetup{}), d.end(t, typ, rxeSetup{})
		byHand(t, a, b)
		b.postRecv(1, 0, 100)
		a.post(a.send(7, 0, 8))
		a.sent("7 SEND success")
		if wc := b.next(b.recvCQ); wc.Status != verbs.StatusSuccess {
			t.Error(wc)
		}
		attr := must(a.qp.Query())(t)
		if attr.State != verbs.QPStateRTS || typ == verbs.QPTypeRC && (attr.Timeout != 14 || attr.RetryCnt != 7 || attr.MinRNRTimer != 12 || attr.PathMTU == 0) {
			t.Errorf("%+v", attr)
		}
	})
}

// TestRxeGet serves several CQs of one channel in one loop.
func TestRxeGet(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	const ends, rounds = 8, 100
	d := openRxe(t)
	channel := must(d.CreateCompChannel())(t)
	closeLater(t, channel)
	a := d.end(t, verbs.QPTypeUD, rxeSetup{})
	a.connect(a)
	var to [ends]*uverbs.QP
	cqs := make(map[*uverbs.CQ]int)
	for i := range to {
		cq := must(d.CreateCQ(rounds, &uverbs.CQOptions{Channel: channel}))(t)
		closeLater(t, cq)
		qp := must(d.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeUD, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxRecvWR: rounds, MaxRecvSGE: 1, MaxSendWR: 1, MaxSendSGE: 1}}))(t)
		closeLater(t, qp)
		if err := errors.Join(qp.Init(&verbs.QPAttr{QKey: rxeQKey}), qp.Connect(nil), cq.Arm(false)); err != nil {
			t.Fatal(err)
		}
		for id := range rounds {
			if _, err := qp.PostRecv([]verbs.RecvWR{{WRID: uint64(id), SGL: []verbs.SGE{a.mr.SGE(0, 100)}}}); err != nil {
				t.Fatal(err)
			}
		}
		to[i], cqs[cq] = qp, 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	sender := sync.WaitGroup{}
	sender.Go(func() {
		for range rounds {
			for _, qp := range to {
				wr := a.send(1, 0, 8)
				wr.RemoteQPN = qp.Num()
				if _, err := a.qp.PostSend([]verbs.SendWR{wr}); err != nil {
					t.Error(err)
					return
				}
				if _, err := a.sendCQ.Wait(ctx, make([]verbs.WC, 1)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	wcs := make([]verbs.WC, 16)
	for left := ends * rounds; left > 0; {
		cq, err := channel.Get(ctx)
		if err != nil {
			t.Fatalf("%v with %d left: %v", err, left, cqs)
		}
		if err := cq.Arm(false); err != nil {
			t.Fatal(err)
		}
		for n := 1; n > 0; {
			if n, err = cq.Poll(wcs); err != nil {
				t.Fatal(err)
			}
			left -= n
			cqs[cq] += n
		}
	}
	sender.Wait()
	for _, n := range cqs {
		if n != rounds {
			t.Errorf("%d completions, want %d", n, rounds)
		}
	}
}

// TestRxeAccess: unsupported access is refused alike on every kernel.
func TestRxeAccess(t *testing.T) {
	d := openRxe(t)
	for flag, has := range map[verbs.Access]bool{
		verbs.AccessOnDemand:    d.attr.ODP.General&verbs.ODPSupport != 0,
		verbs.AccessFlushGlobal: d.has(verbs.DeviceCapFlushGlobal),
	} {
		mr, err := d.pd.AllocMR(1, verbs.AccessLocalWrite|flag, nil)
		if has {
			if err != nil {
				t.Errorf("%v: %v", flag, err)
				continue
			}
			closeLater(t, mr)
			continue
		}
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "has no "+flag.String()) {
			t.Errorf("%v: %v", flag, err)
		}
	}
	if _, err := d.pd.AllocMR(1, verbs.AccessRemoteWrite, nil); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "AccessLocalWrite") {
		t.Error(err)
	}
}

// TestRxeOnDemand carries everything over memory that is not pinned, where the
// kernel has that, Go memory included. Linux 7.2 copies to and from the start of a
// page, wherever in it a packet belongs, so the packets here are pages.
func TestRxeOnDemand(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	sh(t, "ip link set gvroce mtu 9000")
	t.Cleanup(func() { sh(t, "ip link set gvroce mtu 1500") })
	d := openRxe(t)
	a, b := d.end(t, verbs.QPTypeRC, rxeSetup{}), d.end(t, verbs.QPTypeRC, rxeSetup{})
	byHand(t, a, b)
	if d.attr.ODP.General&verbs.ODPSupport == 0 {
		err := d.pd.AdviseMR(verbs.MRPrefetch, true, []verbs.SGE{a.mr.SGE(0, 1)})
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "has no AccessOnDemand") {
			t.Error(err)
		}
		return
	}
	const access = allAccess | verbs.AccessRemoteAtomic | verbs.AccessOnDemand
	far := must(d.pd.AllocMR(1<<20, access, nil))(t)
	closeLater(t, far)
	near := must(d.pd.RegMR(pattern(make([]byte, 1<<20), 3), access))(t)
	closeLater(t, near)
	onDemandAdvice(t, d, near, far)
	wr := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{near.SGE(0, near.Len())}, RemoteAddr: far.Addr(), RKey: far.RKey()}
	a.post(wr)
	a.sent("1 RDMA_WRITE success")
	sameBytes(t, "write", far.Bytes(), pattern(make([]byte, 1<<20), 3))
	clear(near.Bytes())
	wr.Opcode = verbs.OpRDMARead
	a.post(wr)
	a.sent("1 RDMA_READ success")
	sameBytes(t, "read", near.Bytes(), far.Bytes())
	if _, err := b.qp.PostRecv([]verbs.RecvWR{{WRID: 2, SGL: []verbs.SGE{far.SGE(1<<19, 1<<19)}}}); err != nil {
		t.Fatal(err)
	}
	clear(far.Bytes())
	a.post(verbs.SendWR{WRID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{near.SGE(0, 1<<19)}})
	a.sent("3 SEND success")
	b.got("2 RECV success 524288")
	sameBytes(t, "send", far.Bytes()[1<<19:], near.Bytes()[:1<<19])
	a.post(verbs.SendWR{WRID: 4, Opcode: verbs.OpFetchAdd, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)},
		RemoteAddr: far.Addr() + 16, RKey: far.RKey(), CompareAdd: 5})
	a.sent("4 FETCH_ADD success")
	if far.Bytes()[16] != 5 {
		t.Errorf("added up to %x", far.Bytes()[:24])
	}
}

// onDemandAdvice gives all kinds of advice on two regions, also bad ones.
func onDemandAdvice(t *testing.T, d *rxeDevice, near, far *uverbs.MR) {
	t.Helper()
	for _, advice := range []verbs.MRAdvice{verbs.MRPrefetch, verbs.MRPrefetchWrite, verbs.MRPrefetchNoFault} {
		for _, flush := range []bool{true, false} {
			if err := d.pd.AdviseMR(advice, flush, []verbs.SGE{far.SGE(0, 1<<19), near.SGE(0, 1<<19)}); err != nil {
				t.Errorf("%v, flush %v: %v", advice, flush, err)
			}
		}
	}
	other := must(d.AllocPD())(t)
	closeLater(t, other)
	readOnly := must(d.pd.RegMR(make([]byte, 100), verbs.AccessOnDemand))(t)
	closeLater(t, readOnly)
	for _, c := range []struct {
		name string
		pd   *uverbs.PD
		sge  verbs.SGE
		want error
	}{
		{"another PD's", other, far.SGE(0, 1), syscall.EINVAL},
		{"behind the region", d.pd, far.SGE(1<<20, 1<<20), syscall.EFAULT},
		{"read-only", d.pd, readOnly.SGE(0, 1), syscall.EINVAL},
	} {
		if err := c.pd.AdviseMR(verbs.MRPrefetchWrite, true, []verbs.SGE{c.sge}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func sameBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("the %s went wrong", what)
	}
}

// TestRxeDrain goes to SQD and back, with an event when that is done.
func TestRxeDrain(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{})
	for id := range uint64(8) {
		b.postRecv(id, 0, 1000)
		a.post(a.send(id, 0, 1000))
	}
	sqd := &verbs.QPAttr{State: verbs.QPStateSQD, EnSQDAsyncNotify: true}
	if err := a.qp.Modify(sqd, verbs.QPAttrState|verbs.QPAttrEnSQDAsync); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		e, err := d.AsyncEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == uverbs.EventSQDrained && e.QP == a.qp {
			break
		}
	}
	if attr := must(a.qp.Query())(t); attr.State != verbs.QPStateSQD || attr.SQDraining {
		t.Errorf("%v, draining %v", attr.State, attr.SQDraining)
	}
	err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTR}, verbs.QPAttrState)
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "no RC QP goes from SQD to RTR") {
		t.Error(err)
	}
	if err := a.qp.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	b.postRecv(8, 0, 1000)
	a.post(a.send(8, 0, 1000))
	for id := range uint64(9) {
		if wc := a.next(a.sendCQ); wc.WRID != id || wc.Status != verbs.StatusSuccess {
			t.Errorf("%+v", wc)
		}
	}
}
