//go:build vm

package rxe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeCreateQP makes QPs of each type with the least, with some and with the
// most that can be requested. More is refused, and the error says so.
func TestRxeCreateQP(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		d := kit.OpenRxe(t)
		cq := kit.Must(d.CreateCQ(16, nil))(t)
		kit.CloseLater(t, cq)
		create := func(c verbs.QPCap) (*uverbs.QP, error) {
			return d.PD.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: c})
		}
		numbers := make(map[uint32]bool)
		for _, ask := range []verbs.QPCap{
			{},
			{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
			{MaxSendWR: 10, MaxRecvWR: 20, MaxSendSGE: 3, MaxRecvSGE: 4, MaxInline: 100},
			{MaxSendWR: 10, MaxRecvWR: 10, MaxSendSGE: d.Attr.MaxSGE, MaxRecvSGE: d.Attr.MaxSGE, MaxInline: 512},
		} {
			qp := kit.Must(create(ask))(t)
			kit.CloseLater(t, qp)
			attr := kit.Must(qp.Query())(t)
			if !atLeast(qp.Cap(), ask) || attr.State != verbs.QPStateReset || qp.Type() != typ || numbers[qp.QPN()] || qp.QPN() < 2 {
				t.Errorf("asked for %+v, got %+v and %+v", ask, qp, attr)
			}
			numbers[qp.QPN()] = true
		}
		const most = 1<<32 - 1
		for field, c := range map[string]verbs.QPCap{
			"MaxSendWR":  {MaxSendWR: d.Attr.MaxQPWR + 1},
			"MaxRecvWR":  {MaxRecvWR: d.Attr.MaxQPWR + 1},
			"MaxSendSGE": {MaxSendSGE: d.Attr.MaxSGE + 1},
			"MaxRecvSGE": {MaxRecvSGE: d.Attr.MaxSGE + 1},
			"MaxInline":  {MaxInline: 513},
		} {
			refusedFor(t, field, func() error { return failedQP(create(c)) })
		}
		for field, c := range map[string]verbs.QPCap{
			"MaxSendWR": {MaxSendWR: most}, "MaxRecvWR": {MaxRecvWR: most}, "MaxSendSGE": {MaxSendSGE: most}, "MaxRecvSGE": {MaxRecvSGE: most},
			"MaxInline": {MaxInline: most},
		} {
			refusedFor(t, field, func() error { return failedQP(create(c)) })
		}
	})
}

func failedQP(_ *uverbs.QP, err error) error { return err }

func atLeast(c, ask verbs.QPCap) bool {
	return c.MaxSendWR >= ask.MaxSendWR && c.MaxRecvWR >= ask.MaxRecvWR && c.MaxSendSGE >= ask.MaxSendSGE &&
		c.MaxRecvSGE >= ask.MaxRecvSGE && c.MaxInline >= ask.MaxInline
}

// refusedFor expects an error that names the excessive value.
func refusedFor(t *testing.T, field string, create func() error) {
	t.Helper()
	if err := create(); err == nil || !strings.Contains(err.Error(), field) {
		t.Errorf("%s: %v", field, err)
	}
}

// TestRxeCreateQPRefused asks for what soft RoCE has no QP of, and for QPs of
// objects that are missing or gone.
func TestRxeCreateQPRefused(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	cq := kit.Must(d.CreateCQ(16, nil))(t)
	kit.CloseLater(t, cq)
	for name, typ := range map[string]verbs.QPType{
		"GSI": 1, "raw IPv6": 5, "raw Ethertype": 6, "raw packet": 8, "driver": 0xff, "unknown": 99,
	} {
		_, err := d.PD.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		if !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := d.PD.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, SendCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	if !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("XRC initiator: %v", err)
	}
	if _, err := d.OpenXRCD(nil, 0); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("XRC domain: %v", err)
	}
	gone := kit.Must(d.CreateCQ(1, nil))(t)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]*uverbs.QPOptions{
		"nothing": nil, "no CQ": {}, "no receive CQ": {SendCQ: cq}, "CQ closed": {SendCQ: cq, RecvCQ: gone},
	} {
		if _, err := d.PD.CreateQP(opts); err == nil {
			t.Errorf("%s: created", name)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	cancel()
	if _, err := d.AsyncEvent(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an event: %v", err)
	}
}

// queried is a QP whose attributes are set one step after the other, and read
// back after each.
type queried struct {
	*kit.RxeEnd
	want verbs.QPAttr
}

// TestRxeQueryQP reads back each attribute that was set, at each step.
func TestRxeQueryQP(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		d := kit.OpenRxe(t)
		peer := d.End(t, typ, kit.RxeSetup{})
		q := &queried{RxeEnd: d.End(t, typ, kit.RxeSetup{Cap: verbs.QPCap{MaxSendWR: 10, MaxRecvWR: 20, MaxSendSGE: 3, MaxRecvSGE: 4}})}
		peer.Connect(q.RxeEnd)
		q.want = verbs.QPAttr{PathMTU: verbs.MTU256, RNRTimer: 655360 * time.Microsecond, AH: verbs.AHAttr{Global: true}, AltAH: verbs.AHAttr{Global: true}, Cap: q.QP.Cap()}
		q.same("new")
		q.init()
		q.connectTo(peer)
		q.again()
		q.drainedToo()

		peer.PostRecv(1, 0, 100)
		q.Post(q.Send(1, kit.SendFrom, 8))
		q.Sent("1 SEND success")
		peer.Next(peer.RecvCQ) // UC's send completes before the packet is there
		q.want.SQPSN++         // of the next packet
		q.same("after a packet")
		if got := kit.Must(peer.QP.Query())(t).RQPSN; typ != verbs.QPTypeUD && got != q.want.SQPSN {
			t.Errorf("the peer expects packet %#x, not %#x", got, q.want.SQPSN)
		}
		q.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		q.want.State = verbs.QPStateErr
		q.same("ERR")
	})
}

func (q *queried) same(step string) {
	q.T.Helper()
	want := q.want
	if !kit.OnKernel("6.1") { // where it is the last given value
		want.CurState = want.State
	}
	if diff := cmp.Diff(&want, kit.Must(q.QP.Query())(q.T)); diff != "" {
		q.T.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

func (q *queried) init() {
	q.T.Helper()
	q.Access = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	q.ToInit()
	q.want.State, q.want.Port = verbs.QPStateInit, 1
	if q.QP.Type() == verbs.QPTypeUD {
		q.want.QKey = kit.RxeQKey
	} else {
		q.want.Access = q.Access
	}
	q.same("INIT")
}

// connectTo takes the QP to RTS. The kernel has reads and atomics in powers of two.
func (q *queried) connectTo(peer *kit.RxeEnd) {
	q.T.Helper()
	q.AtPeer, q.Ah = peer, peer.Ah // the way to the one port there is
	w := &q.want
	w.State = verbs.QPStateRTR
	if q.QP.Type() != verbs.QPTypeUD {
		w.PathMTU, w.DestQPN, w.RQPSN = verbs.MTU1024, peer.QP.QPN(), 0xabcdef
		w.AH = q.Address(peer)
		w.AH.HopLimit, w.AH.TrafficClass, w.AH.FlowLabel = 63, 0x28, 0xfedcb
	}
	if q.QP.Type() == verbs.QPTypeRC {
		w.MaxDestRDAtomic, w.RNRTimer = 13, 3840*time.Microsecond
	}
	q.Modify(*w, allOf(q.RxeEnd))
	w.MaxDestRDAtomic = (w.MaxDestRDAtomic + 3) &^ 3
	if q.QP.Type() != verbs.QPTypeUD {
		w.AH.HopLimit = 64 // of the route, not the requested one
	}
	q.same("RTR")

	w.State, w.SQPSN = verbs.QPStateRTS, 0x123456
	mask := verbs.QPAttrSQPSN
	if q.QP.Type() == verbs.QPTypeRC {
		w.AckTimeout, w.RetryCnt, w.RNRRetry, w.MaxRDAtomic = 4096<<20, 5, 6, 7
		mask |= retries
	}
	q.Modify(*w, mask)
	w.MaxRDAtomic = (w.MaxRDAtomic + 1) &^ 1
	q.same("RTS")
}

const retries = verbs.QPAttrAckTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic

// change sets attributes without a change of state.
func (q *queried) change(what string, mask verbs.QPAttrMask) {
	q.T.Helper()
	if err := q.QP.Modify(&q.want, mask); err != nil {
		q.T.Error(err)
	}
	q.same(what)
}

// again changes the attributes that may change in RTS.
func (q *queried) again() {
	q.T.Helper()
	w := &q.want
	if q.QP.Type() == verbs.QPTypeUD {
		w.QKey++
		q.change("Q_Key", verbs.QPAttrQKey)
		w.QKey--
		q.change("Q_Key back", verbs.QPAttrQKey)
		return
	}
	w.Access = verbs.AccessRemoteWrite
	q.change("access", verbs.QPAttrAccess)
	if q.QP.Type() == verbs.QPTypeRC {
		w.RNRTimer = 10 * time.Microsecond
		q.change("RNR timer", verbs.QPAttrRNRTimer)
	}
	// The kernel has alternate paths on InfiniBand only.
	alt := verbs.QPAttr{AltAH: q.Address(q.AtPeer), AltPort: 1, AltAckTimeout: 4096 << 5}
	if err := q.QP.Modify(&alt, verbs.QPAttrAltPath); !errors.Is(err, syscall.EINVAL) {
		q.T.Errorf("an alternate path: %v", err)
	}
	q.same("still")
}

// drainedToo changes the attributes that may change in SQD.
func (q *queried) drainedToo() {
	q.T.Helper()
	w := &q.want
	toSQD(q.RxeEnd)
	w.State = verbs.QPStateSQD
	q.same("SQD")
	if q.QP.Type() == verbs.QPTypeRC {
		w.AckTimeout, w.RetryCnt, w.RNRRetry, w.MaxRDAtomic, w.MaxDestRDAtomic, w.RNRTimer = 4096<<14, 7, 7, 2, 2, 640*time.Microsecond
		w.AH.TrafficClass, w.AH.FlowLabel, w.Access = 0, 1, verbs.AccessRemoteRead
		q.change("in SQD", retries|verbs.QPAttrMaxDestRDAtomic|verbs.QPAttrRNRTimer|verbs.QPAttrAV|verbs.QPAttrAccess)
	}
	q.Modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
	w.State = verbs.QPStateRTS
	q.same("RTS again")
}

// TestRxeModifyRefused gives values that are out of range; the error names them.
// RetryCnt, RNRRetry and RNRTimer the kernel takes as they are.
func TestRxeModifyRefused(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	e := d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
	refuses := func(attr verbs.QPAttr, mask verbs.QPAttrMask, why string) {
		t.Helper()
		if err := e.QP.Modify(&attr, mask|verbs.QPAttrState); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want %q", err, why)
		}
	}
	const initial = verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
	refuses(verbs.QPAttr{State: verbs.QPStateInit}, initial, "Port is numbered from 1")
	refuses(verbs.QPAttr{State: verbs.QPStateInit, Port: 2}, initial, "check Port")
	e.ToInit()
	good := verbs.QPAttr{State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, DestQPN: e.QP.QPN(), AH: e.Address(e), MaxDestRDAtomic: 1, RNRTimer: 10 * time.Microsecond}
	for why, spoil := range map[string]func(*verbs.QPAttr){
		"PathMTU is not one of MTU256 to MTU4096": func(a *verbs.QPAttr) { a.PathMTU = 6 },
		"RoCE needs a Global AH":                  func(a *verbs.QPAttr) { a.AH.Global = false },
		"AH.Port must be the QP's port":           func(a *verbs.QPAttr) { a.AH.Port = 0 },
	} {
		attr := good
		spoil(&attr)
		refuses(attr, allOf(e), why)
	}
	e.ToRTR(e)
	good = verbs.QPAttr{State: verbs.QPStateRTS, AckTimeout: 4096 << 14, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1}
	for why, spoil := range map[string]func(*verbs.QPAttr){
		"AckTimeout is 3h0m0s, which is not in":      func(a *verbs.QPAttr) { a.AckTimeout = 3 * time.Hour },
		"MaxRDAtomic (up to DeviceAttr.MaxQPRDAtom)": func(a *verbs.QPAttr) { a.MaxRDAtomic = 129 },
	} {
		attr := good
		spoil(&attr)
		refuses(attr, retries|verbs.QPAttrSQPSN, why)
	}
	e.ToRTS()
}

// TestRxeModifyUD checks that a datagram QP receives messages with its current Q_Key.
func TestRxeModifyUD(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	a, b := kit.OpenRxe(t).Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
	for id := range uint64(4) {
		b.PostRecv(id, 0, 100)
	}
	keyed := func(id uint64, key uint32) {
		t.Helper()
		wr := a.Send(id, kit.SendFrom, int(id))
		wr.RemoteQKey = key
		a.Post(wr)
		a.Next(a.SendCQ)
	}
	keyed(1, kit.RxeQKey)
	b.Got("0 RECV success 41")
	for id, key := range []uint32{3: 0x777, 0x7fffffff, 0} {
		if id < 3 {
			continue
		}
		if err := b.QP.Modify(&verbs.QPAttr{QKey: key}, verbs.QPAttrQKey); err != nil {
			t.Fatal(err)
		}
		keyed(2, kit.RxeQKey) // of before
		keyed(uint64(id), key)
		if wc := b.Next(b.RecvCQ); wc.Status != verbs.StatusSuccess || wc.ByteLen != uint32(uverbs.GRHSize+id) {
			t.Errorf("Q_Key %#x: %+v", key, wc)
		}
	}
}

// TestRxeQPStates takes QPs through all states and into a second life, which is as
// good as the first. The kernel agrees about where they are.
func TestRxeQPStates(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		d := kit.OpenRxe(t)
		a, b := d.End(t, typ, kit.RxeSetup{}), d.End(t, typ, kit.RxeSetup{})
		is := func(e *kit.RxeEnd, want verbs.QPState) {
			t.Helper()
			if s := state(e); s != want {
				t.Errorf("the QP is in %v, want %v", s, want)
			}
		}
		for life := range 3 {
			is(a, verbs.QPStateReset)
			a.ToInit()
			is(a, verbs.QPStateInit)
			a.ToInit() // with other attributes, for all that the kernel cares
			a.PostRecv(0, 0, 100)
			a.ToRTR(b)
			is(a, verbs.QPStateRTR)
			a.ToRTS()
			is(a, verbs.QPStateRTS)
			b.Connect(a)
			swap(a, b, 0)
			toSQD(a)
			is(a, verbs.QPStateSQD)
			waits(a, b)
			swap(a, b, 1)
			a.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
			is(a, verbs.QPStateErr)
			a.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0) // once more does no harm
			if sends, recvs := drain(a); len(sends)+len(recvs) > 0 {
				t.Errorf("life %d left %v, %v", life, sends, recvs)
			}
			for _, e := range []*kit.RxeEnd{a, b} {
				e.Modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
			}
		}
	})
}

// swap has a message go each way. The receive of the first is there already.
func swap(e *kit.RxeEnd, peer *kit.RxeEnd, id uint64) {
	e.T.Helper()
	if id > 0 {
		e.PostRecv(id, 0, 100)
	}
	peer.PostRecv(1000+id, 0, 100)
	e.Post(e.Send(id, kit.SendFrom, 10))
	peer.Post(peer.Send(id, kit.SendFrom, 10))
	for _, end := range []*kit.RxeEnd{e, peer} {
		if wc := end.Next(end.SendCQ); wc.WRID != id || wc.Status != verbs.StatusSuccess {
			e.T.Errorf("sent %+v", wc)
		}
		if wc := end.Next(end.RecvCQ); wc.WRID%1000 != id || wc.Status != verbs.StatusSuccess {
			e.T.Errorf("received %+v", wc)
		}
	}
}

// waits posts sends in SQD, which stay where they are, while the QP goes on
// receiving, until it is back in RTS.
func waits(e *kit.RxeEnd, peer *kit.RxeEnd) {
	e.T.Helper()
	for id := range uint64(3) {
		peer.PostRecv(1010+id, 0, 100)
		e.Post(e.Send(10+id, kit.SendFrom, 10))
	}
	e.PostRecv(10, 0, 100)
	peer.Post(peer.Send(10, kit.SendFrom, 10)) // by when it arrives, the sends would have
	if wc := e.Next(e.RecvCQ); wc.WRID != 10 || wc.Status != verbs.StatusSuccess {
		e.T.Errorf("received in SQD: %+v", wc)
	}
	if wc := peer.Next(peer.SendCQ); wc.WRID != 10 || wc.Status != verbs.StatusSuccess {
		e.T.Errorf("sent to who is in SQD: %+v", wc)
	}
	for name, cq := range map[string]*uverbs.CQ{"sent": e.SendCQ, "arrived": peer.RecvCQ} {
		if n, err := cq.Poll(make([]verbs.WC, 1)); n > 0 || err != nil {
			e.T.Errorf("%s from SQD: %d, %v", name, n, err)
		}
	}
	e.Modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
	for id := range uint64(3) {
		if wc := e.Next(e.SendCQ); wc.WRID != 10+id || wc.Status != verbs.StatusSuccess {
			e.T.Errorf("sent %+v", wc)
		}
		if wc := peer.Next(peer.RecvCQ); wc.WRID != 1010+id || wc.Status != verbs.StatusSuccess {
			e.T.Errorf("received %+v", wc)
		}
	}
}

// TestRxeQPTransitions tries every way that a QP can't go, from each state, with
// too few and with too many attributes. The error says why, and the QP stays in its state.
func TestRxeQPTransitions(t *testing.T) {
	states := []verbs.QPState{verbs.QPStateReset, verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS, verbs.QPStateSQD, verbs.QPStateSQE, verbs.QPStateErr}
	next := map[verbs.QPState]string{verbs.QPStateReset: "INIT", verbs.QPStateInit: "RTR", verbs.QPStateRTR: "RTS", verbs.QPStateRTS: "SQD",
		verbs.QPStateSQD: "RTS"}
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		e := kit.OpenRxe(t).End(t, typ, kit.RxeSetup{})
		refuses := func(attr verbs.QPAttr, mask verbs.QPAttrMask, why string) {
			t.Helper()
			before := state(e)
			err := e.QP.Modify(&attr, mask|verbs.QPAttrState)
			if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), why) {
				t.Errorf("%v to %v: %v; want %q", before, attr.State, err, why)
			}
			if after := state(e); after != before {
				t.Errorf("%v to %v: now in %v", before, attr.State, after)
			}
		}
		// all that can't come after a state, which is one of these
		tries := func(can ...verbs.QPState) {
			t.Helper()
			from := state(e)
			for _, to := range states {
				if !slices.Contains(can, to) {
					why := fmt.Sprintf("no %v QP goes from %v to %v", typ, from, to)
					if next[from] != "" {
						why += fmt.Sprintf("; from %v the next is %s", from, next[from])
					}
					refuses(verbs.QPAttr{State: to}, 0, why)
				}
			}
		}
		const reset, erring = verbs.QPStateReset, verbs.QPStateErr
		tries(reset, verbs.QPStateInit)
		refuses(verbs.QPAttr{State: verbs.QPStateInit}, 0, "RESET to INIT of a "+typ.String()+" QP also needs ")
		e.ToInit()
		tries(reset, erring, verbs.QPStateInit, verbs.QPStateRTR)
		if typ != verbs.QPTypeUD {
			refuses(verbs.QPAttr{State: verbs.QPStateRTR}, 0, "INIT to RTR of a "+typ.String()+" QP also needs ")
		}
		refuses(verbs.QPAttr{State: verbs.QPStateRTR}, allOf(e)|verbs.QPAttrAckTimeout, "can't take AckTimeout")
		e.ToRTR(e)
		tries(reset, erring, verbs.QPStateRTS)
		refuses(verbs.QPAttr{State: verbs.QPStateRTS}, 0, "RTR to RTS of a "+typ.String()+" QP also needs ")
		e.ToRTS()
		tries(reset, erring, verbs.QPStateRTS, verbs.QPStateSQD)
		refuses(verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrPort, "can't take Port")
		toSQD(e)
		tries(reset, erring, verbs.QPStateRTS, verbs.QPStateSQD)
		e.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		tries(reset, erring)
		e.Modify(verbs.QPAttr{State: verbs.QPStateReset}, 0)
	})
}

// allOf are the attributes that the move of toRTR has.
func allOf(e *kit.RxeEnd) verbs.QPAttrMask {
	all := verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPN | verbs.QPAttrRQPSN
	return map[verbs.QPType]verbs.QPAttrMask{
		verbs.QPTypeRC: all | verbs.QPAttrMaxDestRDAtomic | verbs.QPAttrRNRTimer, verbs.QPTypeUC: all}[e.QP.Type()]
}

// TestRxeSQD checks that a QP is drained when the sends that it had begun are done; those behind them, posted before or
// after, wait. That the event comes whether or not it is asked for is how all kernels have it.
func TestRxeSQD(t *testing.T) {
	for _, ask := range []bool{false, true} {
		onRxe(t, fmt.Sprint("event asked for: ", ask), func(t *testing.T, d *kit.RxeDevice) {
			a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
			for round := range uint64(20) { // around the ring
				a.Post(a.Send(10*round+1, kit.SendFrom, 20000)) // waits for a receive
				a.Post(a.Send(10*round+2, kit.SendFrom, 20000))
				a.Modify(verbs.QPAttr{State: verbs.QPStateSQD, EnSQDAsyncNotify: ask}, verbs.QPAttrEnSQDAsync)
				a.Post(a.Send(10*round+3, kit.SendFrom, 8))
				for i := range uint64(3) {
					b.PostRecv(10*round+i, 0, 20000)
				}
				drained(a)
				if attr := kit.Must(a.QP.Query())(t); attr.State != verbs.QPStateSQD || attr.SQDraining {
					t.Fatalf("round %d: %v, draining %v", round, attr.State, attr.SQDraining)
				}
				a.Modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
				for i := range uint64(3) {
					if got, want := outcome(a.Next(a.SendCQ)), fmt.Sprintf("%d SEND success", 10*round+i+1); got != want {
						t.Fatalf("%q, want %q", got, want)
					}
					if wc := b.Next(b.RecvCQ); wc.WRID != 10*round+i || wc.Status != verbs.StatusSuccess {
						t.Fatalf("round %d: received %+v", round, wc)
					}
				}
			}
		})
	}
	onRxe(t, "nothing to drain", func(t *testing.T, d *kit.RxeDevice) {
		a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
		for id := range uint64(a.QP.Cap().MaxSendWR) + 3 { // around the ring
			b.PostRecv(id, 0, 8)
			a.Post(a.Send(id, kit.SendFrom, 8))
			a.Sent(fmt.Sprintf("%d SEND success", id))
			b.Got(fmt.Sprintf("%d RECV success 8", id))
			toSQD(a)
			a.Modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
		}
	})
	onRxe(t, "draining", func(t *testing.T, d *kit.RxeDevice) {
		// The peer's refusal of a send that it has no receive for ends the draining, at
		// any time: before the look at it, before the move to RTS, or between the move's
		// refusal and the look at the reason.
		var a *kit.RxeEnd
		for tries, seen := 0, false; !seen; tries++ {
			a, _ = d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
			a.Post(a.Send(1, kit.SendFrom, 8)) // nobody receives it
			kit.Until(t, "begun", func() bool { return kit.Must(a.QP.Query())(t).SQPSN != 0x123456 })
			a.Modify(verbs.QPAttr{State: verbs.QPStateSQD}, 0)
			attr := kit.Must(a.QP.Query())(t)
			if seen = attr.SQDraining; attr.State != verbs.QPStateSQD || tries == 50 {
				t.Fatalf("%v, draining %v", attr.State, attr.SQDraining)
			}
		}
		err := a.QP.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.QPAttrState)
		if err == nil {
			if attr := kit.Must(a.QP.Query())(t); attr.State != verbs.QPStateRTS {
				t.Error(attr.State)
			}
		} else if !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		} else if !strings.Contains(fmt.Sprint(err), "the send queue is still draining: wait for verbs.EventSQDrained") && kit.Must(a.QP.Query())(t).SQDraining {
			t.Error(err)
		}
		a.Post(a.Send(2, kit.SendFrom, 8))
		if sends, _ := drain(a); cmp.Diff(sends, []string{"1 work request flushed", "2 work request flushed"}) != "" {
			t.Errorf("%q", sends)
		}
	})
}

// joinAll waits for n goroutines and fails with the first error.
func joinAll(t *testing.T, done <-chan error, n int) {
	t.Helper()
	for range n {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// TestRxeFlushAll checks that requests on a failed QP come back, each once, signalled or not, whether it was posted
// before, by several goroutines meanwhile, or after.
func TestRxeFlushAll(t *testing.T) {
	kit.ForAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		kit.RxeFabric(t)
		kit.NoLeak(t)
		a, _ := kit.OpenRxe(t).Pair(t, typ, kit.RxeSetup{Cap: verbs.QPCap{MaxSendWR: 63, MaxRecvWR: 63}})
		toSQD(a)
		unsignaled := func(id uint64) verbs.SendWR {
			wr := a.Send(id, kit.SendFrom, 8)
			wr.Flags = 0
			return wr
		}
		for id := uint64(100); id < 120; id++ {
			a.Post(unsignaled(id))
			a.PostRecv(id, 0, 8)
		}
		done := make(chan error, 2)
		go func() {
			for id := uint64(120); id < 150; id++ {
				if _, err := a.QP.PostSend([]verbs.SendWR{unsignaled(id)}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		go func() {
			for id := uint64(120); id < 150; id++ {
				if _, err := a.QP.PostRecv([]verbs.RecvWR{{WRID: id}}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		running := 2
		if kit.OnKernel("6.1") && typ != verbs.QPTypeRC {
			// Its modify flushes outside the lock that a doorbell's flush takes:
			// the two may report one request twice and skip its neighbour.
			joinAll(t, done, running)
			running = 0
		}
		a.Modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		joinAll(t, done, running)
		var want []string
		for id := 100; id < 150; id++ {
			want = append(want, fmt.Sprintf("%d work request flushed", id))
		}
		sends, recvs := drain(a)
		if diff := cmp.Diff(want, sends); diff != "" {
			t.Errorf("sends (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, recvs); diff != "" {
			t.Errorf("receives (-want +got):\n%s", diff)
		}
	})
}
