package rdmatest_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestNotReadyForever checks that, as TestRxeNotReadyForever shows of Linux, RNRRetry 7 has no limit
// only if RetryCnt is 7. Cards stop the acknowledgement timeout meanwhile.
func TestNotReadyForever(t *testing.T) {
	for kind, want := range map[rdmatest.Kind]string{rdmatest.RXE: "1 transport retries exceeded", rdmatest.MLX5: "1 SEND success"} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				a, b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
				a.change = func(attr *verbs.QPAttr) { attr.AckTimeout, attr.RetryCnt = time.Millisecond, 3 }
				b.change = func(attr *verbs.QPAttr) { attr.RNRTimer = 655360 * time.Microsecond }
				a.connect(b, nil)
				b.connect(a, nil)
				began := time.Now()
				a.post(a.to(b, verbs.OpSend, 8))
				if kind != rdmatest.RXE {
					b.receive(1000, 0, recvSize)
				}
				if got := outcome(a.next()); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				// One timeout counts in each wait for the peer, and the fourth one is too many.
				if took := time.Since(began); kind == rdmatest.RXE && took.Round(10*time.Millisecond) != 1970*time.Millisecond {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestNotReadyShort checks that a wait for the peer which is shorter than the acknowledgement timeout counts as no
// timeout: RNRRetry 7 has no limit then.
func TestNotReadyShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE})
		a, b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
		a.change = func(attr *verbs.QPAttr) { attr.AckTimeout, attr.RetryCnt = 100*time.Millisecond, 3 }
		b.change = func(attr *verbs.QPAttr) { attr.RNRTimer = 640 * time.Microsecond }
		a.connect(b, nil)
		b.connect(a, nil)
		a.post(a.to(b, verbs.OpSend, 8))
		time.Sleep(time.Second)
		b.receive(1000, 0, recvSize)
		if got := outcome(a.next()); got != "1 SEND success" {
			t.Error(got)
		}
	})
}

// TestNoReadDepth checks that a READ with a depth of 0 waits for ever with soft RoCE. Cards take 0
// for 1.
func TestNoReadDepth(t *testing.T) {
	for kind, want := range map[rdmatest.Kind]string{rdmatest.RXE: "1 work request flushed; RTS", rdmatest.MLX5: "1 RDMA_READ success; RTS"} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				a, b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
				a.change = func(attr *verbs.QPAttr) { attr.MaxRDAtomic = 0 }
				a.connect(b, nil)
				b.connect(a, nil)
				a.post(a.to(b, verbs.OpRDMARead, 8))
				synctest.Wait()
				if got := a.story(); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		})
	}
}

// TestReadDepth checks that READs beyond the depth wait for those ahead of them.
func TestReadDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.New(t)
		f.SetLatency(1000)
		a, b := newNode(t, f.Host(0).Device(0), verbs.QPTypeRC, all), newNode(t, f.Host(1).Device(0), verbs.QPTypeRC, all)
		a.change = func(attr *verbs.QPAttr) { attr.MaxRDAtomic = 1 }
		a.connect(b, nil)
		b.connect(a, nil)
		for range 3 {
			a.post(a.to(b, verbs.OpRDMARead, 8))
		}
		for range 3 {
			if got := outcome(a.next()); got != "1 RDMA_READ success" {
				t.Error(got)
			}
		}
	})
}

// TestRXEQuery checks rxe's answers for attributes that it sets itself.
func TestRXEQuery(t *testing.T) {
	f := rdmatest.New(t)
	for _, typ := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUD} {
		a, b := newNode(t, f.Host(0).Device(0), typ, all), newNode(t, f.Host(1).Device(0), typ, all)
		query := func(mtu verbs.MTU, hops uint8) {
			t.Helper()
			if attr := must(a.qp.Query())(t); attr.PathMTU != mtu || !attr.AH.Global || attr.AH.HopLimit != hops {
				t.Errorf("%v %v: path MTU %v, global %v, hop limit %d", typ, attr.State, attr.PathMTU, attr.AH.Global, attr.AH.HopLimit)
			}
		}
		query(verbs.MTU256, 0)
		a.connect(b, func(attr *verbs.QPAttr) { attr.AH.HopLimit, attr.PathMTU = 7, verbs.MTU1024 })
		if typ == verbs.QPTypeUD {
			query(verbs.MTU256, 0)
		} else {
			query(verbs.MTU1024, 64)
		}
	}
}

// TestGRHLength checks that the IPv4 header in front of a datagram has the length of the packet.
func TestGRHLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(t, rdmatest.New(t), verbs.QPTypeUD, all)
		a.post(a.to(b, verbs.OpSend, 8))
		synctest.Wait()
		if n := binary.BigEndian.Uint16(b.mr.Bytes()[22:]); n != 60 {
			t.Errorf("%d bytes", n)
		}
	})
}

// TestBoundRegion checks that a region with a bound window can't be closed.
func TestBoundRegion(t *testing.T) {
	a, _ := two(t, rdmatest.New(t), verbs.QPTypeRC, all)
	mr, mw := must(a.pd.AllocMR(4096, all, nil))(t), must(a.pd.AllocMW(verbs.MWType2))(t)
	a.post(verbs.SendWR{WRID: 1, Opcode: verbs.OpBindMW,
		Bind: &verbs.BindMW{MW: mw, MR: mr, RKey: mw.RKey() + 1, Addr: mr.Addr(), Length: 4096, Access: verbs.AccessRemoteRead}})
	if got := outcome(a.next()); got != "1 BIND_MW success" {
		t.Error(got)
	}
	if err := mr.Close(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("closed: %v", err)
	}
	for _, c := range []interface{ Close() error }{mw, mr} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOverflowEvents checks that soft RoCE raises an event for each completion that a CQ has no room
// for, and goes on.
func TestOverflowEvents(t *testing.T) {
	a, b := two(t, rdmatest.New(t), verbs.QPTypeRC, all)
	b.receive(1002, 0, recvSize)
	const lost = 2
	room := a.cq.Cap()
	for range room + lost {
		a.post(a.to(b, verbs.OpRDMAWrite, 8))
	}
	for range lost {
		if ev, err := a.dev.AsyncEvent(t.Context()); err != nil || ev.Type != verbs.EventCQErr || ev.CQ != a.cq {
			t.Errorf("%+v, %v", ev, err)
		}
	}
	wcs := make([]verbs.WC, room+lost)
	if n, err := a.cq.Poll(wcs); n != room || err != nil {
		t.Errorf("%d completions, %v", n, err)
	}
	a.post(a.to(b, verbs.OpSend, 8))
	if got := outcome(a.next()); got != "1 SEND success" {
		t.Error(got)
	}
}

// TestNotJoined checks that a queue pair that is attached to a group receives nothing if its host has
// not joined the group.
func TestNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(t, rdmatest.New(t), verbs.QPTypeUD, all)
		group := verbs.GIDFromAddr(netip.MustParseAddr("239.1.2.3"))
		if err := b.qp.AttachMcast(group, 0); err != nil {
			t.Fatal(err)
		}
		ah := closed(t, must(a.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: group, SGIDIndex: a.gid.Index}))(t))
		wr := a.to(b, verbs.OpSend, 8)
		wr.AH, wr.RemoteQPN = ah, 0xffffff
		a.post(wr)
		synctest.Wait()
		if got := b.story(); got != "1000 work request flushed, 1001 work request flushed; RTS" {
			t.Error(got)
		}
		if err := b.qp.DetachMcast(group, 0); err != nil {
			t.Error(err)
		}
	})
}

// TestSIWQuery checks that Query returns zero for what siw does not say, and the sizes that siw has
// rounded up.
func TestSIWQuery(t *testing.T) {
	a, _ := meet(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.SIW}), nil)
	attr := must(a.QP().Query())(t)
	if attr.State != verbs.QPStateRTS || attr.CurState != attr.State || attr.Cap.MaxInline != 80 ||
		attr.Access != verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite || attr.Cap.MaxSendWR&(attr.Cap.MaxSendWR-1) != 0 {
		t.Errorf("%+v", attr)
	}
	for state, still := range map[verbs.QPState]verbs.QPState{verbs.QPStateReset: verbs.QPStateInit, verbs.QPStateSQD: verbs.QPStateInit, verbs.QPStateErr: verbs.QPStateErr} {
		d := a.Device()
		pd, cq := closed(t, must(d.AllocPD())(t)), closed(t, must(d.CreateCQ(8, nil))(t))
		qp := closed(t, must(pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 3, MaxRecvWR: 3, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t))
		if err := qp.Modify(&verbs.QPAttr{State: state}, verbs.QPAttrState); err != nil {
			t.Error(err)
		}
		if attr := must(qp.Query())(t); attr.State != still || attr.Cap.MaxRecvWR != 4 {
			t.Errorf("after %v: %+v", state, attr)
		}
	}
}
