//go:build vm

package test

import (
	"strings"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeQKey: a new Q_Key holds at once, and the old one no more; one with the top
// bit rxe sends as it is, where InfiniBand would send the sender's own.
func TestRxeQKey(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	a, b := openRxe(t).pair(t, verbs.QPTypeUD, rxeSetup{})
	send := func(key uint32, size int) {
		t.Helper()
		wr := a.send(1, sendFrom, size)
		wr.RemoteQKey = key
		a.post(wr)
		a.sent("1 SEND success")
	}
	old := uint32(rxeQKey)
	for _, key := range []uint32{0x99, 1<<31 | rxeQKey, 0} {
		if err := b.qp.Modify(&verbs.QPAttr{QKey: key}, verbs.QPAttrQKey); err != nil {
			t.Fatal(err)
		}
		if got := must(b.qp.Query())(t).QKey; got != key {
			t.Errorf("Q_Key %#x, want %#x", got, key)
		}
		b.postRecv(2, 0, 100)
		send(old, 8)
		send(key, 9)
		b.got("2 RECV success 49")
		old = key
	}
}

// TestRxePrivilegedQKey: a Q_Key with the top bit is the operating system's.
func TestRxePrivilegedQKey(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	start(t, child("privileged Q_Key")).finish(t)
	out := runCommand(t, nobody(child("privileged Q_Key")))
	if out.Code != 1 || !strings.Contains(out.Err, "operation not permitted: ") || !strings.Contains(out.Err, "CAP_NET_RAW") {
		t.Errorf("%+v", out)
	}
}

func takePrivilegedQKey([]string) error {
	dev, err := uverbs.Open(rxeLink)
	if err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	cq, err := dev.CreateCQ(1, nil)
	if err != nil {
		return err
	}
	qp, err := pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeUD, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	if err != nil {
		return err
	}
	return qp.Init(&verbs.QPAttr{QKey: 1<<31 | 1})
}

// TestRxePKeyIndex: there is but one P_Key, and rxe takes any index for its.
func TestRxePKeyIndex(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	a, b := d.end(t, verbs.QPTypeUD, rxeSetup{}), d.end(t, verbs.QPTypeUD, rxeSetup{})
	for i, e := range []*rxeEnd{a, b} {
		if err := e.qp.Init(&verbs.QPAttr{QKey: rxeQKey, PKeyIndex: uint32(i)}); err != nil {
			t.Fatal(err)
		}
		if got := must(e.qp.Query())(t).PKeyIndex; got != uint32(i) {
			t.Errorf("index %d, want %d", got, i)
		}
	}
	for e, peer := range map[*rxeEnd]*rxeEnd{a: b, b: a} {
		e.toRTR(peer)
		e.toRTS()
	}
	b.postRecv(1, 0, 100)
	a.post(a.send(2, sendFrom, 8))
	a.sent("2 SEND success")
	if wc := b.got("1 RECV success 48"); wc.PKeyIndex != 0 {
		t.Errorf("%+v", wc)
	}
}
