//go:build vm

package rxe

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// byHand connects two ends with the two calls, for the MTU of the port.
func byHand(t *testing.T, a, b *kit.RxeEnd) {
	t.Helper()
	for _, e := range []*kit.RxeEnd{a, b} {
		if err := e.QP.Init(&verbs.QPAttr{Access: e.Access, QKey: kit.RxeQKey}); err != nil {
			t.Fatal(err)
		}
	}
	for e, peer := range map[*kit.RxeEnd]*kit.RxeEnd{a: b, b: a} {
		e.AtPeer = peer
		to := e.Address(peer)
		if err := e.QP.Connect(&verbs.QPAttr{AH: to, DestQPN: peer.QP.QPN(), RQPSN: 5, SQPSN: 5}); err != nil {
			t.Fatal(err)
		}
		e.Ah = kit.Must(e.Dev.PD.CreateAH(&to))(t)
		kit.CloseLater(t, e.Ah)
	}
}

// TestRxeConnect makes connections with the two calls.
func TestRxeConnect(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		a, b := d.End(t, typ, kit.RxeSetup{}), d.End(t, typ, kit.RxeSetup{})
		byHand(t, a, b)
		b.PostRecv(1, 0, 100)
		a.Post(a.Send(7, 0, 8))
		a.Sent("7 SEND success")
		if wc := b.Next(b.RecvCQ); wc.Status != verbs.StatusSuccess {
			t.Error(wc)
		}
		attr := kit.Must(a.QP.Query())(t)
		if attr.State != verbs.QPStateRTS || typ == verbs.QPTypeRC && (attr.AckTimeout != 4096<<14 || attr.RetryCnt != 7 || attr.RNRTimer != 640*time.Microsecond || attr.PathMTU == 0) {
			t.Errorf("%+v", attr)
		}
	})
}

// TestRxeGet serves several CQs of one channel in one loop.
func TestRxeGet(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	const ends, rounds = 8, 100
	d := kit.OpenRxe(t)
	channel := kit.Must(d.CreateCompChannel())(t)
	kit.CloseLater(t, channel)
	a := d.End(t, verbs.QPTypeUD, kit.RxeSetup{})
	a.Connect(a)
	var to [ends]*uverbs.QP
	cqs := make(map[*uverbs.CQ]int)
	for i := range to {
		cq := kit.Must(d.CreateCQ(rounds, &uverbs.CQOptions{Channel: channel}))(t)
		kit.CloseLater(t, cq)
		qp := kit.Must(d.PD.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeUD, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxRecvWR: rounds, MaxRecvSGE: 1, MaxSendWR: 1, MaxSendSGE: 1}}))(t)
		kit.CloseLater(t, qp)
		if err := errors.Join(qp.Init(&verbs.QPAttr{QKey: kit.RxeQKey}), qp.Connect(nil), cq.Arm(false)); err != nil {
			t.Fatal(err)
		}
		for id := range rounds {
			if _, err := qp.PostRecv([]verbs.RecvWR{{WRID: uint64(id), SGL: []verbs.SGE{a.MR.SGE(0, 100)}}}); err != nil {
				t.Fatal(err)
			}
		}
		to[i], cqs[cq] = qp, 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
	defer cancel()
	sender := sync.WaitGroup{}
	sender.Go(func() {
		for range rounds {
			for _, qp := range to {
				wr := a.Send(1, 0, 8)
				wr.RemoteQPN = qp.QPN()
				if _, err := a.QP.PostSend([]verbs.SendWR{wr}); err != nil {
					t.Error(err)
					return
				}
				if _, err := a.SendCQ.Wait(ctx, make([]verbs.WC, 1)); err != nil {
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

// TestRxeAccess checks that unsupported access is refused alike on every kernel.
func TestRxeAccess(t *testing.T) {
	d := kit.OpenRxe(t)
	for flag, has := range map[verbs.Access]bool{
		verbs.AccessOnDemand:    d.Attr.ODP.General&verbs.ODPSupport != 0,
		verbs.AccessFlushGlobal: d.Has(verbs.DeviceCapFlushGlobal),
	} {
		mr, err := d.PD.AllocMR(1, verbs.AccessLocalWrite|flag, nil)
		if has {
			if err != nil {
				t.Errorf("%v: %v", flag, err)
				continue
			}
			kit.CloseLater(t, mr)
			continue
		}
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "does not support "+flag.String()) {
			t.Errorf("%v: %v", flag, err)
		}
	}
	if _, err := d.PD.AllocMR(1, verbs.AccessRemoteWrite, nil); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "AccessLocalWrite") {
		t.Error(err)
	}
}

// TestRxeOnDemand carries everything over memory that is not pinned, where the
// kernel has that, Go memory included. Linux 7.2 copies to and from the start of a
// page, wherever in it a packet belongs, so the packets here are pages.
func TestRxeOnDemand(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	kit.Sh(t, "ip link set gvroce mtu 9000")
	t.Cleanup(func() { kit.Sh(t, "ip link set gvroce mtu 1500") })
	d := kit.OpenRxe(t)
	a, b := d.End(t, verbs.QPTypeRC, kit.RxeSetup{}), d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
	byHand(t, a, b)
	if d.Attr.ODP.General&verbs.ODPSupport == 0 {
		err := d.PD.AdviseMR(verbs.MRPrefetch, true, []verbs.SGE{a.MR.SGE(0, 1)})
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "has no AccessOnDemand") {
			t.Error(err)
		}
		return
	}
	const access = kit.AllAccess | verbs.AccessRemoteAtomic | verbs.AccessOnDemand
	far := kit.Must(d.PD.AllocMR(1<<20, access, nil))(t)
	kit.CloseLater(t, far)
	near := kit.Must(d.PD.RegMR(kit.Pattern(make([]byte, 1<<20), 3), access))(t)
	kit.CloseLater(t, near)
	onDemandAdvice(t, d, near, far)
	wr := verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{near.SGE(0, near.Len())}, RemoteAddr: far.Addr(), RKey: far.RKey()}
	a.Post(wr)
	a.Sent("1 RDMA_WRITE success")
	sameBytes(t, "write", far.Bytes(), kit.Pattern(make([]byte, 1<<20), 3))
	clear(near.Bytes())
	wr.Opcode = verbs.OpRDMARead
	a.Post(wr)
	a.Sent("1 RDMA_READ success")
	sameBytes(t, "read", near.Bytes(), far.Bytes())
	if _, err := b.QP.PostRecv([]verbs.RecvWR{{WRID: 2, SGL: []verbs.SGE{far.SGE(1<<19, 1<<19)}}}); err != nil {
		t.Fatal(err)
	}
	clear(far.Bytes())
	a.Post(verbs.SendWR{WRID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{near.SGE(0, 1<<19)}})
	a.Sent("3 SEND success")
	b.Got("2 RECV success 524288")
	sameBytes(t, "send", far.Bytes()[1<<19:], near.Bytes()[:1<<19])
	a.Post(verbs.SendWR{WRID: 4, Opcode: verbs.OpFetchAdd, Flags: verbs.SendSignaled, SGL: []verbs.SGE{a.MR.SGE(0, 8)},
		RemoteAddr: far.Addr() + 16, RKey: far.RKey(), CompareAdd: 5})
	a.Sent("4 FETCH_ADD success")
	if far.Bytes()[16] != 5 {
		t.Errorf("added up to %x", far.Bytes()[:24])
	}
}

// onDemandAdvice gives all kinds of advice on two regions, also bad ones.
func onDemandAdvice(t *testing.T, d *kit.RxeDevice, near, far *uverbs.MR) {
	t.Helper()
	for _, advice := range []verbs.MRAdvice{verbs.MRPrefetch, verbs.MRPrefetchWrite, verbs.MRPrefetchNoFault} {
		for _, flush := range []bool{true, false} {
			if err := d.PD.AdviseMR(advice, flush, []verbs.SGE{far.SGE(0, 1<<19), near.SGE(0, 1<<19)}); err != nil {
				t.Errorf("%v, flush %v: %v", advice, flush, err)
			}
		}
	}
	other := kit.Must(d.AllocPD())(t)
	kit.CloseLater(t, other)
	readOnly := kit.Must(d.PD.RegMR(make([]byte, 100), verbs.AccessOnDemand))(t)
	kit.CloseLater(t, readOnly)
	for _, c := range []struct {
		name string
		pd   *uverbs.PD
		sge  verbs.SGE
		want error
	}{
		{"another PD's", other, far.SGE(0, 1), syscall.EINVAL},
		{"behind the region", d.PD, verbs.SGE{Addr: far.Addr() + 1<<20, Length: 1 << 20, LKey: far.LKey()}, syscall.EFAULT},
		{"read-only", d.PD, readOnly.SGE(0, 1), syscall.EINVAL},
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
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	for id := range uint64(8) {
		b.PostRecv(id, 0, 1000)
		a.Post(a.Send(id, 0, 1000))
	}
	sqd := &verbs.QPAttr{State: verbs.QPStateSQD, EnSQDAsyncNotify: true}
	if err := a.QP.Modify(sqd, verbs.QPAttrState|verbs.QPAttrEnSQDAsync); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	for {
		e, err := d.AsyncEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == verbs.EventSQDrained && e.QP == a.QP {
			break
		}
	}
	if attr := kit.Must(a.QP.Query())(t); attr.State != verbs.QPStateSQD || attr.SQDraining {
		t.Errorf("%v, draining %v", attr.State, attr.SQDraining)
	}
	err := a.QP.Modify(&verbs.QPAttr{State: verbs.QPStateRTR}, verbs.QPAttrState)
	if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "no RC QP goes from SQD to RTR") {
		t.Error(err)
	}
	if err := a.QP.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	b.PostRecv(8, 0, 1000)
	a.Post(a.Send(8, 0, 1000))
	for id := range uint64(9) {
		if wc := a.Next(a.SendCQ); wc.WRID != id || wc.Status != verbs.StatusSuccess {
			t.Errorf("%+v", wc)
		}
	}
}
