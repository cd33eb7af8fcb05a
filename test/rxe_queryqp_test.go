//go:build vm

package test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
)

// queried is a QP whose attributes are set one step after the other, and read
// back after each.
type queried struct {
	*rxeEnd
	want uverbs.QPAttr
}

// TestRxeQueryQP reads back each attribute that was set, at each step.
func TestRxeQueryQP(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ uverbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		d := openRxe(t)
		peer := d.end(t, typ, rxeSetup{})
		q := &queried{rxeEnd: d.end(t, typ, rxeSetup{cap: uverbs.QPCap{MaxSendWR: 10, MaxRecvWR: 20, MaxSendSGE: 3, MaxRecvSGE: 4}})}
		peer.connect(q.rxeEnd)
		q.want = uverbs.QPAttr{PathMTU: uverbs.MTU256, AH: uverbs.AHAttr{Global: true}, AltAH: uverbs.AHAttr{Global: true}, Cap: q.qp.Cap()}
		q.same("new")
		q.init()
		q.connectTo(peer)
		q.again()
		q.drainedToo()

		peer.postRecv(1, 0, 100)
		q.post(q.send(1, sendFrom, 8))
		q.sent("1 SEND success")
		peer.next(peer.recvCQ) // UC's send completes before the packet is there
		q.want.SQPSN++         // of the next packet
		q.same("after a packet")
		if got := must(peer.qp.Query())(t).RQPSN; typ != uverbs.QPTypeUD && got != q.want.SQPSN {
			t.Errorf("the peer expects packet %#x, not %#x", got, q.want.SQPSN)
		}
		q.modify(uverbs.QPAttr{State: uverbs.QPStateErr}, 0)
		q.want.State = uverbs.QPStateErr
		q.same("ERR")
	})
}

func (q *queried) same(step string) {
	q.t.Helper()
	want := q.want
	if !onKernel("6.1") { // where it is what was given last
		want.CurState = want.State
	}
	if diff := cmp.Diff(&want, must(q.qp.Query())(q.t)); diff != "" {
		q.t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

func (q *queried) init() {
	q.t.Helper()
	q.access = uverbs.AccessRemoteRead | uverbs.AccessRemoteWrite
	q.toInit()
	q.want.State, q.want.Port = uverbs.QPStateInit, 1
	if q.qp.Type() == uverbs.QPTypeUD {
		q.want.QKey = rxeQKey
	} else {
		q.want.Access = q.access
	}
	q.same("INIT")
}

// connectTo takes the QP to RTS. The kernel has reads and atomics in powers of two.
func (q *queried) connectTo(peer *rxeEnd) {
	q.t.Helper()
	q.peer, q.ah = peer, peer.ah // the way to the one port there is
	w := &q.want
	w.State = uverbs.QPStateRTR
	if q.qp.Type() != uverbs.QPTypeUD {
		w.PathMTU, w.DestQPN, w.RQPSN = uverbs.MTU1024, peer.qp.Num(), 0xabcdef
		w.AH = q.address(peer)
		w.AH.HopLimit, w.AH.TrafficClass, w.AH.FlowLabel = 63, 0x28, 0xfedcb
	}
	if q.qp.Type() == uverbs.QPTypeRC {
		w.MaxDestRDAtomic, w.MinRNRTimer = 13, 17
	}
	q.modify(*w, allOf(q.rxeEnd))
	w.MaxDestRDAtomic = (w.MaxDestRDAtomic + 3) &^ 3
	if q.qp.Type() != uverbs.QPTypeUD {
		w.AH.HopLimit = 64 // of the route, whatever was asked for
	}
	q.same("RTR")

	w.State, w.SQPSN = uverbs.QPStateRTS, 0x123456
	mask := uverbs.QPAttrSQPSN
	if q.qp.Type() == uverbs.QPTypeRC {
		w.Timeout, w.RetryCnt, w.RNRRetry, w.MaxRDAtomic = 20, 5, 6, 7
		mask |= retries
	}
	q.modify(*w, mask)
	w.MaxRDAtomic = (w.MaxRDAtomic + 1) &^ 1
	q.same("RTS")
}

const retries = uverbs.QPAttrTimeout | uverbs.QPAttrRetryCnt | uverbs.QPAttrRNRRetry | uverbs.QPAttrMaxQPRDAtomic

// change sets attributes without a change of state.
func (q *queried) change(what string, mask uverbs.QPAttrMask) {
	q.t.Helper()
	if err := q.qp.Modify(&q.want, mask); err != nil {
		q.t.Error(err)
	}
	q.same(what)
}

// again changes what can be changed in RTS.
func (q *queried) again() {
	q.t.Helper()
	w := &q.want
	if q.qp.Type() == uverbs.QPTypeUD {
		w.QKey++
		q.change("Q_Key", uverbs.QPAttrQKey)
		w.QKey--
		q.change("Q_Key back", uverbs.QPAttrQKey)
		return
	}
	w.Access = uverbs.AccessRemoteWrite
	q.change("access", uverbs.QPAttrAccess)
	if q.qp.Type() == uverbs.QPTypeRC {
		w.MinRNRTimer = 1
		q.change("RNR timer", uverbs.QPAttrMinRNRTimer)
	}
	// The kernel has alternate paths on InfiniBand only.
	alt := uverbs.QPAttr{AltAH: q.address(q.peer), AltPort: 1, AltTimeout: 5}
	if err := q.qp.Modify(&alt, uverbs.QPAttrAltPath); !errors.Is(err, syscall.EINVAL) {
		q.t.Errorf("an alternate path: %v", err)
	}
	q.same("still")
}

// drainedToo changes what can be changed in SQD.
func (q *queried) drainedToo() {
	q.t.Helper()
	w := &q.want
	q.toSQD()
	w.State = uverbs.QPStateSQD
	q.same("SQD")
	if q.qp.Type() == uverbs.QPTypeRC {
		w.Timeout, w.RetryCnt, w.RNRRetry, w.MaxRDAtomic, w.MaxDestRDAtomic, w.MinRNRTimer = 14, 7, 7, 2, 2, 12
		w.AH.TrafficClass, w.AH.FlowLabel, w.Access = 0, 1, uverbs.AccessRemoteRead
		q.change("in SQD", retries|uverbs.QPAttrMaxDestRDAtomic|uverbs.QPAttrMinRNRTimer|uverbs.QPAttrAV|uverbs.QPAttrAccess)
	}
	q.modify(uverbs.QPAttr{State: uverbs.QPStateRTS}, 0)
	w.State = uverbs.QPStateRTS
	q.same("RTS again")
}

// TestRxeModifyRefused gives values that are out of range; the error names them.
// RetryCnt, RNRRetry and MinRNRTimer the kernel takes as they are.
func TestRxeModifyRefused(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	e := d.end(t, uverbs.QPTypeRC, rxeSetup{})
	refuses := func(attr uverbs.QPAttr, mask uverbs.QPAttrMask, why string) {
		t.Helper()
		if err := e.qp.Modify(&attr, mask|uverbs.QPAttrState); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want %q", err, why)
		}
	}
	const initial = uverbs.QPAttrPKeyIndex | uverbs.QPAttrPort | uverbs.QPAttrAccess
	refuses(uverbs.QPAttr{State: uverbs.QPStateInit}, initial, "Port counts from 1")
	refuses(uverbs.QPAttr{State: uverbs.QPStateInit, Port: 2}, initial, "check Port")
	e.toInit()
	good := uverbs.QPAttr{State: uverbs.QPStateRTR, PathMTU: uverbs.MTU1024, DestQPN: e.qp.Num(), AH: e.address(e), MaxDestRDAtomic: 1, MinRNRTimer: 1}
	for why, spoil := range map[string]func(*uverbs.QPAttr){
		"PathMTU is none of MTU256 to MTU4096": func(a *uverbs.QPAttr) { a.PathMTU = 6 },
		"RoCE needs a Global AH":               func(a *uverbs.QPAttr) { a.AH.Global = false },
		"AH.Port must be the QP's port":        func(a *uverbs.QPAttr) { a.AH.Port = 0 },
	} {
		attr := good
		spoil(&attr)
		refuses(attr, allOf(e), why)
	}
	e.toRTR(e)
	good = uverbs.QPAttr{State: uverbs.QPStateRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1}
	for why, spoil := range map[string]func(*uverbs.QPAttr){
		"Timeout is at most 31":                      func(a *uverbs.QPAttr) { a.Timeout = 32 },
		"MaxRDAtomic (up to DeviceAttr.MaxQPRDAtom)": func(a *uverbs.QPAttr) { a.MaxRDAtomic = 129 },
	} {
		attr := good
		spoil(&attr)
		refuses(attr, retries|uverbs.QPAttrSQPSN, why)
	}
	e.toRTS()
}

// TestRxeModifyUD: a datagram QP takes what has its Q_Key of the moment.
func TestRxeModifyUD(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := openRxe(t).pair(t, uverbs.QPTypeUD, rxeSetup{})
	for id := range uint64(4) {
		b.postRecv(id, 0, 100)
	}
	keyed := func(id uint64, key uint32) {
		t.Helper()
		wr := a.send(id, sendFrom, int(id))
		wr.RemoteQKey = key
		a.post(wr)
		a.next(a.sendCQ)
	}
	keyed(1, rxeQKey)
	b.got("0 RECV success 41")
	for id, key := range []uint32{3: 0x777, 0x7fffffff, 0} {
		if id < 3 {
			continue
		}
		if err := b.qp.Modify(&uverbs.QPAttr{QKey: key}, uverbs.QPAttrQKey); err != nil {
			t.Fatal(err)
		}
		keyed(2, rxeQKey) // of before
		keyed(uint64(id), key)
		if wc := b.next(b.recvCQ); wc.Status != uverbs.StatusSuccess || wc.ByteLen != uint32(uverbs.GRHSize+id) {
			t.Errorf("Q_Key %#x: %+v", key, wc)
		}
	}
}
