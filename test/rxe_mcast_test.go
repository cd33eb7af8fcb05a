//go:build vm

package test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// joinHost has the host itself be a member of a group, without which the kernel's
// IP layer drops its packets before rxe sees them.
func joinHost(t *testing.T, group string) {
	t.Helper()
	c := must(net.ListenMulticastUDP("udp", must(net.InterfaceByName("gvroce"))(t), &net.UDPAddr{IP: net.ParseIP(group)}))(t)
	closeLater(t, c)
}

// TestRxeMulticast: two QPs receive the messages to a group, then one, then
// none.
func TestRxeMulticast(t *testing.T) {
	rxeFabric(t)
	for from, group := range map[string]string{rxeIPv4: "239.83.0.1", rxeIPv6: "ff15::83:1"} {
		t.Run(group, func(t *testing.T) {
			noLeak(t)
			d := openRxe(t)
			joinHost(t, group)
			gid := verbs.GIDFromAddr(netip.MustParseAddr(group))
			a, b := d.pair(t, verbs.QPTypeUD, rxeSetup{})
			c := d.end(t, verbs.QPTypeUD, rxeSetup{})
			c.connect(a)
			attr := d.way(from, group)
			attr.HopLimit, attr.TrafficClass = 3, 0x20
			ah := d.ah(t, attr)
			cast := func(id uint64) {
				t.Helper()
				wr := a.send(id, sendFrom, 8)
				wr.AH, wr.RemoteQPN = ah, 0xffffff
				a.post(wr)
				a.sent(fmt.Sprintf("%d SEND success", id))
			}
			hears := func(e *rxeEnd, id uint64) {
				t.Helper()
				if wc := e.got(fmt.Sprintf("%d RECV success 48", id)); wc.SrcQP != a.qp.Num() {
					t.Errorf("%+v", wc)
				}
			}
			// Messages to the QP itself arrive behind those to the group.
			direct := func(e *rxeEnd, id uint64) {
				t.Helper()
				wr := a.send(id, sendFrom, 9)
				wr.RemoteQPN = e.qp.Num()
				a.post(wr)
				a.sent(fmt.Sprintf("%d SEND success", id))
				e.got(fmt.Sprintf("%d RECV success 49", id))
			}
			attach := func(e *rxeEnd) {
				t.Helper()
				if err := e.qp.AttachMcast(gid, 0); err != nil {
					t.Fatal(err)
				}
			}
			detach := func(e *rxeEnd) {
				t.Helper()
				if err := e.qp.DetachMcast(gid, 0); err != nil {
					t.Fatal(err)
				}
			}
			attach(b)
			attach(c)
			attach(c) // again is no harm, and no second message
			for _, e := range []*rxeEnd{b, c} {
				e.postRecv(1, 0, 100)
				e.postRecv(2, 0, 100)
			}
			cast(1)
			hears(b, 1)
			hears(c, 1)
			for _, e := range []*rxeEnd{b, c} {
				got := must(uverbs.ParseGRH(e.mr.Bytes()))(t)
				want := uverbs.GRH{SGID: verbs.GIDFromAddr(netip.MustParseAddr(from)), DGID: gid, Type: verbs.GIDTypeRoCEv2, TrafficClass: 0x20, HopLimit: 3}
				if got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
			wc := verbs.WC{Flags: verbs.WCGRH}
			if _, err := d.pd.AHFromWC(1, &wc, b.mr.Bytes()[:uverbs.GRHSize]); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), group) {
				t.Errorf("answered a group: %v", err)
			}
			detach(c)
			cast(2)
			hears(b, 2)
			direct(c, 2)
			detach(b)
			b.postRecv(3, 0, 100)
			cast(3)
			direct(b, 3)
			if err := b.qp.DetachMcast(gid, 0); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("detached twice: %v", err)
			}
		})
	}
}

// TestRxeMulticastRefused: some QPs can't attach, and an attached one can't be closed.
func TestRxeMulticastRefused(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	a, _ := d.pair(t, verbs.QPTypeUD, rxeSetup{})
	rc := d.end(t, verbs.QPTypeRC, rxeSetup{})
	group := verbs.GIDFromAddr(netip.MustParseAddr("239.83.0.2"))
	for want, err := range map[string]error{
		"only UD QPs take part in multicast":        rc.qp.AttachMcast(group, 0),
		"a multicast GID begins with ff, or stands": a.qp.AttachMcast(d.gid.GID, 0),
		"invalid argument":                          a.qp.DetachMcast(group, 0),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := a.qp.AttachMcast(group, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.qp.Close(); !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), "it is attached to a multicast group: DetachMcast first") {
		t.Errorf("%v", err)
	}
	a.postRecv(1, 0, 100) // it lives
	if err := a.qp.DetachMcast(group, 0); err != nil {
		t.Error(err)
	}
}
