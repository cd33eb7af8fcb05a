//go:build vm

package test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// queried is a QP whose attributes are set one step after the other, and read
// back after each.
type queried struct {
	*rxeEnd
	want verbs.QPAttr
}

// TestRxeQueryQP reads back each attribute that was set, at each step.
func TestRxeQueryQP(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		d := openRxe(t)
		peer := d.end(t, typ, rxeSetup{})
		q := &queried{rxeEnd: d.end(t, typ, rxeSetup{cap: verbs.QPCap{MaxSendWR: 10, MaxRecvWR: 20, MaxSendSGE: 3, MaxRecvSGE: 4}})}
		peer.connect(q.rxeEnd)
		q.want = verbs.QPAttr{PathMTU: verbs.MTU256, AH: verbs.AHAttr{Global: true}, AltAH: verbs.AHAttr{Global: true}, Cap: q.qp.Cap()}
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
		if got := must(peer.qp.Query())(t).RQPSN; typ != verbs.QPTypeUD && got != q.want.SQPSN {
			t.Errorf("the peer expects packet %#x, not %#x", got, q.want.SQPSN)
		}
		q.modify(verbs.QPAttr{State: verbs.QPStateErr}, 0)
		q.want.State = verbs.QPStateErr
		q.same("ERR")
	})
}

func (q *queried) same(step string) {
	q.t.Helper()
	want := q.want
	if !onKernel("6.1") { // where it is the last given value
		want.CurState = want.State
	}
	if diff := cmp.Diff(&want, must(q.qp.Query())(q.t)); diff != "" {
		q.t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

func (q *queried) init() {
	q.t.Helper()
	q.access = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	q.toInit()
	q.want.State, q.want.Port = verbs.QPStateInit, 1
	if q.qp.Type() == verbs.QPTypeUD {
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
	w.State = verbs.QPStateRTR
	if q.qp.Type() != verbs.QPTypeUD {
		w.PathMTU, w.DestQPN, w.RQPSN = verbs.MTU1024, peer.qp.Num(), 0xabcdef
		w.AH = q.address(peer)
		w.AH.HopLimit, w.AH.TrafficClass, w.AH.FlowLabel = 63, 0x28, 0xfedcb
	}
	if q.qp.Type() == verbs.QPTypeRC {
		w.MaxDestRDAtomic, w.MinRNRTimer = 13, 17
	}
	q.modify(*w, allOf(q.rxeEnd))
	w.MaxDestRDAtomic = (w.MaxDestRDAtomic + 3) &^ 3
	if q.qp.Type() != verbs.QPTypeUD {
		w.AH.HopLimit = 64 // of the route, not the requested one
	}
	q.same("RTR")

	w.State, w.SQPSN = verbs.QPStateRTS, 0x123456
	mask := verbs.QPAttrSQPSN
	if q.qp.Type() == verbs.QPTypeRC {
		w.Timeout, w.RetryCnt, w.RNRRetry, w.MaxRDAtomic = 20, 5, 6, 7
		mask |= retries
	}
	q.modify(*w, mask)
	w.MaxRDAtomic = (w.MaxRDAtomic + 1) &^ 1
	q.same("RTS")
}

const retries = verbs.QPAttrTimeout | verbs.QPAttrRetryCnt | verbs.QPAttrRNRRetry | verbs.QPAttrMaxQPRDAtomic

// change sets attributes without a change of state.
func (q *queried) change(what string, mask verbs.QPAttrMask) {
	q.t.Helper()
	if err := q.qp.Modify(&q.want, mask); err != nil {
		q.t.Error(err)
	}
	q.same(what)
}

// again changes the attributes that may change in RTS.
func (q *queried) again() {
	q.t.Helper()
	w := &q.want
	if q.qp.Type() == verbs.QPTypeUD {
		w.QKey++
		q.change("Q_Key", verbs.QPAttrQKey)
		w.QKey--
		q.change("Q_Key back", verbs.QPAttrQKey)
		return
	}
	w.Access = verbs.AccessRemoteWrite
	q.change("access", verbs.QPAttrAccess)
	if q.qp.Type() == verbs.QPTypeRC {
		w.MinRNRTimer = 1
		q.change("RNR timer", verbs.QPAttrMinRNRTimer)
	}
	// The kernel has alternate paths on InfiniBand only.
	alt := verbs.QPAttr{AltAH: q.address(q.peer), AltPort: 1, AltTimeout: 5}
	if err := q.qp.Modify(&alt, verbs.QPAttrAltPath); !errors.Is(err, syscall.EINVAL) {
		q.t.Errorf("an alternate path: %v", err)
	}
	q.same("still")
}

// drainedToo changes the attributes that may change in SQD.
func (q *queried) drainedToo() {
	q.t.Helper()
	w := &q.want
	q.toSQD()
	w.State = verbs.QPStateSQD
	q.same("SQD")
	if q.qp.Type() == verbs.QPTypeRC {
		w.Timeout, w.RetryCnt, w.RNRRetry, w.MaxRDAtomic, w.MaxDestRDAtomic, w.MinRNRTimer = 14, 7, 7, 2, 2, 12
		w.AH.TrafficClass, w.AH.FlowLabel, w.Access = 0, 1, verbs.AccessRemoteRead
		q.change("in SQD", retries|verbs.QPAttrMaxDestRDAtomic|verbs.QPAttrMinRNRTimer|verbs.QPAttrAV|verbs.QPAttrAccess)
	}
	q.modify(verbs.QPAttr{State: verbs.QPStateRTS}, 0)
	w.State = verbs.QPStateRTS
	q.same("RTS again")
}

// TestRxeModifyRefused gives values that are out of range; the error names them.
// RetryCnt, RNRRetry and MinRNRTimer the kernel takes as they are.
func TestRxeModifyRefused(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	e := d.end(t, verbs.QPTypeRC, rxeSetup{})
	refuses := func(attr verbs.QPAttr, mask verbs.QPAttrMask, why string) {
		t.Helper()
		if err := e.qp.Modify(&attr, mask|verbs.QPAttrState); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), why) {
			t.Errorf("%v; want %q", err, why)
		}
	}
	const initial = verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
	refuses(verbs.QPAttr{State: verbs.QPStateInit}, initial, "Port counts from 1")
	refuses(verbs.QPAttr{State: verbs.QPStateInit, Port: 2}, initial, "check Port")
	e.toInit()
	good := verbs.QPAttr{State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, DestQPN: e.qp.Num(), AH: e.address(e), MaxDestRDAtomic: 1, MinRNRTimer: 1}
	for why, spoil := range map[string]func(*verbs.QPAttr){
		"PathMTU is none of MTU256 to MTU4096": func(a *verbs.QPAttr) { a.PathMTU = 6 },
		"RoCE needs a Global AH":               func(a *verbs.QPAttr) { a.AH.Global = false },
		"AH.Port must be the QP's port":        func(a *verbs.QPAttr) { a.AH.Port = 0 },
	} {
		attr := good
		spoil(&attr)
		refuses(attr, allOf(e), why)
	}
	e.toRTR(e)
	good = verbs.QPAttr{State: verbs.QPStateRTS, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 1}
	for why, spoil := range map[string]func(*verbs.QPAttr){
		"Timeout is at most 31":                      func(a *verbs.QPAttr) { a.Timeout = 32 },
		"MaxRDAtomic (up to DeviceAttr.MaxQPRDAtom)": func(a *verbs.QPAttr) { a.MaxRDAtomic = 129 },
	} {
		attr := good
		spoil(&attr)
		refuses(attr, retries|verbs.QPAttrSQPSN, why)
	}
	e.toRTS()
}

// TestRxeModifyUD: a datagram QP receives messages with its current Q_Key.
func TestRxeModifyUD(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := openRxe(t).pair(t, verbs.QPTypeUD, rxeSetup{})
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
		if err := b.qp.Modify(&verbs.QPAttr{QKey: key}, verbs.QPAttrQKey); err != nil {
			t.Fatal(err)
		}
		keyed(2, rxeQKey) // of before
		keyed(uint64(id), key)
		if wc := b.next(b.recvCQ); wc.Status != verbs.StatusSuccess || wc.ByteLen != uint32(uverbs.GRHSize+id) {
			t.Errorf("Q_Key %#x: %+v", key, wc)
		}
	}
}
