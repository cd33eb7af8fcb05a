//go:build vm

package rxe

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// way is the way from the device's GID of an address to another address.
func pathOf(d *kit.RxeDevice, from, to string) verbs.AHAttr {
	d.T.Helper()
	source := kit.Must(d.ChooseGID(1, &uverbs.GIDChoice{Addr: netip.MustParseAddr(from)}))(d.T)
	return verbs.AHAttr{Global: true, DGID: verbs.GIDFromAddr(netip.MustParseAddr(to)), SGIDIndex: source.Index, Port: 1}
}

// sendGRH sends a message along a path and returns the receiver's GRH.
func sendGRH(t *testing.T, a, b *kit.RxeEnd, ah *uverbs.AH) (uverbs.GRH, verbs.WC) {
	t.Helper()
	clear(b.MR.Bytes()[:uverbs.GRHSize])
	b.PostRecv(1, 0, 100)
	wr := a.Send(2, kit.SendFrom, 8)
	wr.AH = ah
	a.Post(wr)
	a.Sent("2 SEND success")
	wc := b.Got("1 RECV success 48")
	if wc.Flags != verbs.WCGRH || wc.SrcQPN != a.QP.QPN() || wc.PKeyIndex != 0 || wc.SLID != 0 || wc.SL != 0 || wc.DLIDPathBits != 0 {
		t.Errorf("%+v", wc)
	}
	return kit.Must(uverbs.ParseGRH(b.MR.Bytes()))(t), wc
}

// TestRxeAH checks that the receiver sees the path that the sender chose. The kernel takes the hop limit from its own
// route, and rxe sends no flow label; see TestRxeMulticast for a hop limit that counts.
func TestRxeAH(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, b := d.Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
	for _, addr := range []string{kit.RxeIPv4, kit.RxeIPv6} {
		for _, class := range []uint8{0, 0x20, 0xfc} {
			for _, asked := range []verbs.AHAttr{{}, {HopLimit: 3}, {FlowLabel: 0xfffff}, {HopLimit: 255, FlowLabel: 1, SL: 7, StaticRate: 3}} {
				attr := pathOf(d, addr, addr)
				attr.TrafficClass, attr.HopLimit, attr.FlowLabel, attr.SL, attr.StaticRate = class, asked.HopLimit, asked.FlowLabel, asked.SL, asked.StaticRate
				got, _ := sendGRH(t, a, b, d.Ah(t, attr))
				want := uverbs.GRH{SGID: attr.DGID, DGID: attr.DGID, Type: verbs.GIDTypeRoCEv2, TrafficClass: class, HopLimit: 64}
				if got != want {
					t.Errorf("%+v: came as %+v, want %+v", attr, got, want)
				}
			}
		}
	}
}

// TestRxeAHSource checks that the source index decides the sender's address, and the family.
func TestRxeAHSource(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	second := []string{"10.83.0.7", "fd83::7"}
	kit.Sh(t, "ip addr add 10.83.0.7/24 dev gvroce && ip addr add fd83::7/64 dev gvroce nodad")
	t.Cleanup(func() { kit.Sh(t, "ip addr del 10.83.0.7/24 dev gvroce && ip addr del fd83::7/64 dev gvroce") })
	d := kit.OpenRxe(t)
	if !kit.Eventually(func() bool { return len(kit.Must(d.GIDTable())(t)) == 5 }) {
		t.Fatalf("%+v", kit.Must(d.GIDTable())(t))
	}
	a, b := d.Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
	for i, first := range []string{kit.RxeIPv4, kit.RxeIPv6} {
		for _, way := range [][2]string{{first, second[i]}, {second[i], first}, {second[i], second[i]}} {
			got, _ := sendGRH(t, a, b, d.Ah(t, pathOf(d, way[0], way[1])))
			if from, to := got.SGID.Addr().String(), got.DGID.Addr().String(); from != way[0] || to != way[1] {
				t.Errorf("%s to %s came from %s to %s", way[0], way[1], from, to)
			}
		}
	}
}

// TestRxeAHRefused checks which addresses are refused, and why.
func TestRxeAHRefused(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	good := pathOf(d, kit.RxeIPv4, kit.RxeIPv4)
	for name, test := range map[string]struct {
		change func(*verbs.AHAttr)
		is     error
		want   string
	}{
		"not global": {func(a *verbs.AHAttr) { a.Global = false }, syscall.EINVAL, "RoCE needs a Global address, with DGID and SGIDIndex"},
		"empty slot": {func(a *verbs.AHAttr) { a.SGIDIndex = 200 }, syscall.ENODATA, "SGIDIndex must be a used slot"},
		"no port":    {func(a *verbs.AHAttr) { a.Port = 2 }, syscall.EINVAL, "no such port"},
		"port 0":     {func(a *verbs.AHAttr) { a.Port = 0 }, syscall.EINVAL, "no such port"},
		"no way":     {func(a *verbs.AHAttr) { *a = pathOf(d, kit.RxeIPv6, "2001:db8::1") }, syscall.ENETUNREACH, "no route to DGID"},
		"families":   {func(a *verbs.AHAttr) { a.DGID = verbs.GIDFromAddr(netip.MustParseAddr(kit.RxeIPv6)) }, syscall.EINVAL, "both must be IPv4 or both IPv6"},
	} {
		attr := good
		test.change(&attr)
		ah, err := d.PD.CreateAH(&attr)
		if err == nil {
			t.Errorf("%s: made", name)
			kit.CloseLater(t, ah)
			continue
		}
		if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %v, %q", name, err, test.is, test.want)
		}
	}
	if _, err := d.PD.CreateAH(nil); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

// TestRxeAHClosed checks that a handle that is gone, or another PD's, takes no message, and that the QP still works.
func TestRxeAHClosed(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, b := d.Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
	attr := pathOf(d, kit.RxeIPv4, kit.RxeIPv4)
	gone := kit.Must(d.PD.CreateAH(&attr))(t)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
	other := kit.Must(d.AllocPD())(t)
	kit.CloseLater(t, other)
	foreign := kit.Must(other.CreateAH(&attr))(t)
	kit.CloseLater(t, foreign)
	for ah, want := range map[verbs.AH]string{gone: "needs an open AH", foreign: "different PDs", nil: "needs an open AH", (*uverbs.AH)(nil): "needs an open AH"} {
		wr := a.Send(1, kit.SendFrom, 8)
		wr.AH = ah
		if n, err := a.QP.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d, %v, want %q", n, err, want)
		}
	}
	sendGRH(t, a, b, a.Ah)
}

// TestRxeManyAHs creates many address handles, each with its own path.
func TestRxeManyAHs(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, b := d.Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
	var all []*uverbs.AH
	for class := range 256 {
		attr := pathOf(d, kit.RxeIPv6, kit.RxeIPv6)
		attr.TrafficClass = uint8(class) &^ 3 // the rest is the network's, for congestion
		all = append(all, d.Ah(t, attr))
	}
	for _, i := range []int{255, 128, 4, 0} {
		if got, _ := sendGRH(t, a, b, all[i]); got.TrafficClass != uint8(i)&^3 {
			t.Errorf("handle %d: %+v", i, got)
		}
	}
}

// TestRxeAHFromWC answers messages, with only their completions to learn the sender from.
func TestRxeAHFromWC(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	d := kit.OpenRxe(t)
	a, b := d.Pair(t, verbs.QPTypeUD, kit.RxeSetup{})
	for i, addr := range []string{kit.RxeIPv4, kit.RxeIPv6} {
		attr := pathOf(d, addr, addr)
		attr.TrafficClass = 0x40
		_, wc := sendGRH(t, a, b, d.Ah(t, attr))
		grh := b.MR.Bytes()[:uverbs.GRHSize]
		back := kit.Must(d.AHAttrFromWC(1, &wc, grh))(t)
		if back.DGID != attr.DGID || back.SGIDIndex != attr.SGIDIndex || back.TrafficClass != 0x40 || !back.Global || back.Port != 1 {
			t.Errorf("%+v", back)
		}
		ah := kit.Must(d.PD.AHFromWC(1, &wc, grh))(t)
		kit.CloseLater(t, ah)
		a.PostRecv(uint64(i), 0, 100)
		answer := b.Send(3, kit.SendFrom, 5)
		answer.AH, answer.RemoteQPN = ah, wc.SrcQPN
		b.Post(answer)
		b.Sent("3 SEND success")
		a.Got(fmt.Sprintf("%d RECV success 45", i))
		if got := kit.Must(uverbs.ParseGRH(a.MR.Bytes()))(t); got.DGID != attr.DGID || got.TrafficClass != 0x40 {
			t.Errorf("%+v", got)
		}
		for name, try := range map[string]func() (*uverbs.AH, error){
			"short": func() (*uverbs.AH, error) { return d.PD.AHFromWC(1, &wc, grh[:39]) },
			"zeros": func() (*uverbs.AH, error) { return d.PD.AHFromWC(1, &wc, make([]byte, uverbs.GRHSize)) },
			"port":  func() (*uverbs.AH, error) { return d.PD.AHFromWC(2, &wc, grh) },
			"none":  func() (*uverbs.AH, error) { return d.PD.AHFromWC(1, &verbs.WC{}, grh) },
			"nil":   func() (*uverbs.AH, error) { return d.PD.AHFromWC(1, nil, grh) },
		} {
			if _, err := try(); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, verbs.ErrNoGID) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
