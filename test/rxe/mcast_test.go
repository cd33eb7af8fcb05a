//go:build vm

package rxe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// joinHost has the host itself be a member of a group, without which the kernel's
// IP layer drops its packets before rxe sees them.
func joinHost(t *testing.T, group string) {
	t.Helper()
	c := kit.Must(net.ListenMulticastUDP("udp", kit.Must(net.InterfaceByName("gvroce"))(t), &net.UDPAddr{IP: net.ParseIP(group)}))(t)
	kit.CloseLater(t, c)
}

// TestRxeMulticast checks that two QPs receive the messages to a group, then one, then none.
func TestRxeMulticast(t *testing.T) {
	kit.RxeFabric(t)
	for from, group := range map[string]string{kit.RxeIPv4: "239.83.0.1", kit.RxeIPv6: "ff15::83:1"} {
		t.Run(group, func(t *testing.T) {
			kit.NoLeak(t)
			d := kit.OpenRxe(t)
			joinHost(t, group)
			gid := verbs.GIDFromAddr(netip.MustParseAddr(group))
			a, b := d.Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
			c := d.End(t, verbs.QPTypeUD, kit.RxeSetup{})
			c.Connect(a)
			attr := pathOf(d, from, group)
			attr.HopLimit, attr.TrafficClass = 3, 0x20
			ah := d.Ah(t, attr)
			cast := func(id uint64) {
				t.Helper()
				wr := a.Send(id, kit.SendFrom, 8)
				wr.AH, wr.RemoteQPN = ah, 0xffffff
				a.Post(wr)
				a.Sent(fmt.Sprintf("%d SEND success", id))
			}
			hears := func(e *kit.RxeEnd, id uint64) {
				t.Helper()
				if wc := e.Got(fmt.Sprintf("%d RECV success 48", id)); wc.SrcQPN != a.QP.QPN() {
					t.Errorf("%+v", wc)
				}
			}
			// Messages to the QP itself arrive behind those to the group.
			direct := func(e *kit.RxeEnd, id uint64) {
				t.Helper()
				wr := a.Send(id, kit.SendFrom, 9)
				wr.RemoteQPN = e.QP.QPN()
				a.Post(wr)
				a.Sent(fmt.Sprintf("%d SEND success", id))
				e.Got(fmt.Sprintf("%d RECV success 49", id))
			}
			attach := func(e *kit.RxeEnd) {
				t.Helper()
				if err := e.QP.AttachMcast(gid, 0); err != nil {
					t.Fatal(err)
				}
			}
			detach := func(e *kit.RxeEnd) {
				t.Helper()
				if err := e.QP.DetachMcast(gid, 0); err != nil {
					t.Fatal(err)
				}
			}
			attach(b)
			attach(c)
			attach(c) // again is no harm, and no second message
			for _, e := range []*kit.RxeEnd{b, c} {
				e.PostRecv(1, 0, 100)
				e.PostRecv(2, 0, 100)
			}
			cast(1)
			hears(b, 1)
			hears(c, 1)
			for _, e := range []*kit.RxeEnd{b, c} {
				got := kit.Must(uverbs.ParseGRH(e.MR.Bytes()))(t)
				want := uverbs.GRH{SGID: verbs.GIDFromAddr(netip.MustParseAddr(from)), DGID: gid, Type: verbs.GIDTypeRoCEv2, TrafficClass: 0x20, HopLimit: 3}
				if got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
			wc := verbs.WC{Flags: verbs.WCGRH}
			if _, err := d.PD.AHFromWC(1, &wc, b.MR.Bytes()[:uverbs.GRHSize]); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), group) {
				t.Errorf("answered a group: %v", err)
			}
			detach(c)
			cast(2)
			hears(b, 2)
			direct(c, 2)
			detach(b)
			b.PostRecv(3, 0, 100)
			cast(3)
			direct(b, 3)
			if err := b.QP.DetachMcast(gid, 0); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("detached twice: %v", err)
			}
		})
	}
}

// TestRxeMulticastRefused checks that some QPs can't attach, and an attached one can't be closed.
func TestRxeMulticastRefused(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, _ := d.Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
	rc := d.End(t, verbs.QPTypeRC, kit.RxeSetup{})
	group := verbs.GIDFromAddr(netip.MustParseAddr("239.83.0.2"))
	for want, err := range map[string]error{
		"only UD QPs take part in multicast":        rc.QP.AttachMcast(group, 0),
		"a multicast GID begins with ff, or stands": a.QP.AttachMcast(d.GID.GID, 0),
		"invalid argument":                          a.QP.DetachMcast(group, 0),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := a.QP.AttachMcast(group, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.QP.Close(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "it is attached to a multicast group: DetachMcast first") {
		t.Errorf("%v", err)
	}
	a.PostRecv(1, 0, 100) // it lives
	if err := a.QP.DetachMcast(group, 0); err != nil {
		t.Error(err)
	}
}

// TestRxeQKey checks that a new Q_Key holds at once, and the old one no more; one with the top bit rxe sends as it is,
// where InfiniBand would send the sender's own.
func TestRxeQKey(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	a, b := kit.OpenRxe(t).Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
	send := func(key uint32, size int) {
		t.Helper()
		wr := a.Send(1, kit.SendFrom, size)
		wr.RemoteQKey = key
		a.Post(wr)
		a.Sent("1 SEND success")
	}
	old := uint32(kit.RxeQKey)
	for _, key := range []uint32{0x99, 1<<31 | kit.RxeQKey, 0} {
		if err := b.QP.Modify(&verbs.QPAttr{QKey: key}, verbs.QPAttrQKey); err != nil {
			t.Fatal(err)
		}
		if got := kit.Must(b.QP.Query())(t).QKey; got != key {
			t.Errorf("Q_Key %#x, want %#x", got, key)
		}
		b.PostRecv(2, 0, 100)
		send(old, 8)
		send(key, 9)
		b.Got("2 RECV success 49")
		old = key
	}
}

// TestRxePrivilegedQKey checks that a Q_Key with the top bit is the operating system's.
func TestRxePrivilegedQKey(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	kit.Start(t, kit.Child("privileged Q_Key")).Finish(t)
	out := kit.RunCommand(t, kit.Nobody(kit.Child("privileged Q_Key")))
	if out.Code != 1 || !strings.Contains(out.Err, "operation not permitted: ") || !strings.Contains(out.Err, "CAP_NET_RAW") {
		t.Errorf("%+v", out)
	}
}

func takePrivilegedQKey([]string) error {
	dev, err := uverbs.Open(kit.RxeLink)
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

// TestRxePKeyIndex checks that there is but one P_Key, and rxe takes any index for its.
func TestRxePKeyIndex(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, b := d.End(t, verbs.QPTypeUD, kit.RxeSetup{}), d.End(t, verbs.QPTypeUD, kit.RxeSetup{})
	for i, e := range []*kit.RxeEnd{a, b} {
		if err := e.QP.Init(&verbs.QPAttr{QKey: kit.RxeQKey, PKeyIndex: uint32(i)}); err != nil {
			t.Fatal(err)
		}
		if got := kit.Must(e.QP.Query())(t).PKeyIndex; got != uint32(i) {
			t.Errorf("index %d, want %d", got, i)
		}
	}
	for e, peer := range map[*kit.RxeEnd]*kit.RxeEnd{a: b, b: a} {
		e.ToRTR(peer)
		e.ToRTS()
	}
	b.PostRecv(1, 0, 100)
	a.Post(a.Send(2, kit.SendFrom, 8))
	a.Sent("2 SEND success")
	if wc := b.Got("1 RECV success 48"); wc.PKeyIndex != 0 {
		t.Errorf("%+v", wc)
	}
}
