package uverbs_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// ipv4GRH returns the bytes before a message over IPv4: 20 undefined bytes and the header.
func ipv4GRH(first byte, src, dst string) []byte {
	b := make([]byte, 40)
	b[0] = first
	h := b[20:]
	h[0], h[1], h[8], h[9] = 0x45, 0xb8, 63, 17
	s, d := netip.MustParseAddr(src).As4(), netip.MustParseAddr(dst).As4()
	copy(h[12:], s[:])
	copy(h[16:], d[:])
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum+sum>>16))
	return b
}

func ipv6GRH(next byte, src, dst string) []byte {
	b := make([]byte, 8, 40)
	binary.BigEndian.PutUint32(b, 6<<28|0x12<<20|0x34567)
	b[6], b[7] = next, 62
	s, d := netip.MustParseAddr(src).As16(), netip.MustParseAddr(dst).As16()
	return append(append(b, s[:]...), d[:]...)
}

func mapped(addr string) verbs.GID { return verbs.GIDFromAddr(netip.MustParseAddr(addr)) }

func TestAHAttrFromWC(t *testing.T) {
	k, dev := openPort(t, &port1{verbs.LinkEthernet, active, append([]verbs.GIDEntry{
		{GID: both[5].GID, Type: verbs.GIDTypeRoCEv2, Port: 2, Index: 9}}, both...)})
	wc := &verbs.WC{Flags: verbs.WCGRH, SLID: 5, SL: 6, DLIDPathBits: 7}
	v4 := verbs.AHAttr{Global: true, DGID: mapped("10.0.0.9"), SGIDIndex: 5, HopLimit: 63, TrafficClass: 0xb8, DLID: 5, SL: 6, SrcPathBits: 7, Port: 1}
	v6 := verbs.AHAttr{Global: true, DGID: mapped("2001:db8::9"), SGIDIndex: 3, HopLimit: 62, TrafficClass: 0x12, FlowLabel: 0x34567, DLID: 5, SL: 6, SrcPathBits: 7, Port: 1}
	far := v4
	far.DGID = mapped("192.168.255.250")
	v1 := v6
	v1.SGIDIndex = 2
	for _, c := range []struct {
		name string
		grh  []byte
		want verbs.AHAttr
	}{
		{"IPv4", ipv4GRH(0, "10.0.0.9", "10.0.0.1"), v4},
		{"IPv4 behind what looks like IPv6", ipv4GRH(0x60, "10.0.0.9", "10.0.0.1"), v4},
		{"IPv4 with a carry in its checksum", ipv4GRH(0x6f, "192.168.255.250", "10.0.0.1"), far},
		{"IPv6", ipv6GRH(17, "2001:db8::9", "2001:db8::1"), v6},
		{"RoCE v1", ipv6GRH(0x1b, "2001:db8::9", "2001:db8::1"), v1},
		{"with the message", append(ipv6GRH(17, "2001:db8::9", "2001:db8::1"), "hello"...), v6},
	} {
		if got, err := dev.AHAttrFromWC(1, wc, c.grh); err != nil || *got != c.want {
			t.Errorf("%s: %v\n got %+v\nwant %+v", c.name, err, got, c.want)
		}
	}
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	defer pd.Close()
	if _, err := pd.AHFromWC(1, wc, nil); err == nil {
		t.Error("an AH of nothing")
	}
	k.Fail("QUERY_GID_TABLE", 0, errGaveUp)
	if _, err := dev.AHAttrFromWC(1, wc, ipv4GRH(0, "10.0.0.9", "10.0.0.1")); !errors.Is(err, errGaveUp) {
		t.Error(err)
	}
}

func TestAHAttrFromWCRefused(t *testing.T) {
	k, dev := openPort(t, &port1{verbs.LinkEthernet, active, both})
	good := ipv4GRH(0, "10.0.0.9", "10.0.0.1")
	grh := &verbs.WC{Flags: verbs.WCGRH}
	for _, c := range []struct {
		name string
		port int
		wc   *verbs.WC
		grh  []byte
		want string
	}{
		{"no completion", 1, nil, good, "only a successful completion"},
		{"failed", 1, &verbs.WC{Flags: verbs.WCGRH, Status: verbs.StatusWRFlushErr}, good, "only a successful completion"},
		{"no GRH", 1, &verbs.WC{}, good, "no WCGRH"},
		{"short", 1, grh, good[:39], "40 bytes"},
		{"none", 1, grh, nil, "40 bytes"},
		{"zeros", 1, grh, make([]byte, 40), "neither an IPv6 nor an IPv4 header"},
		{"TCP", 1, grh, ipv6GRH(6, "2001:db8::9", "2001:db8::1"), "neither UDP nor InfiniBand"},
		{"multicast", 1, grh, ipv4GRH(0, "10.0.0.9", "239.0.0.1"), "multicast group ::ffff:239.0.0.1"},
		{"IPv6 multicast", 1, grh, ipv6GRH(17, "2001:db8::9", "ff0e::1"), "multicast group ff0e::1"},
		{"from a group", 1, grh, ipv4GRH(0, "239.0.0.1", "10.0.0.1"), "not a unicast address"},
		{"from nobody", 1, grh, ipv6GRH(17, "::", "2001:db8::1"), "not a unicast address"},
		{"not ours", 1, grh, ipv4GRH(0, "10.0.0.9", "10.0.0.8"), "it was sent to 10.0.0.8"},
		{"beyond 255", 1, grh, ipv4GRH(0, "10.0.0.9", "10.0.0.3"), "it was sent to 10.0.0.3"},
		{"no such port", 257, grh, good, "of port 257"},
	} {
		attr, err := dev.AHAttrFromWC(c.port, c.wc, c.grh)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", c.name, attr, err, c.want)
		}
	}
	k.Fail("QUERY_PORT", 0, errGaveUp)
	if _, err := dev.AHAttrFromWC(1, &verbs.WC{}, good); !errors.Is(err, errGaveUp) {
		t.Error(err)
	}
}

// TestAHAttrFromLID finds a sender by its LID.
func TestAHAttrFromLID(t *testing.T) {
	_, dev := openPort(t, &port1{verbs.LinkInfiniBand, active, nil})
	got, err := dev.AHAttrFromWC(1, &verbs.WC{SLID: 5, SL: 6, DLIDPathBits: 7}, nil)
	if want := (verbs.AHAttr{DLID: 5, SL: 6, SrcPathBits: 7, Port: 1}); err != nil || *got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzParseGRH checks that any bytes are a header or an error, and a header's addresses are among the
// bytes.
func FuzzParseGRH(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(make([]byte, 40))
	f.Add(ipv4GRH(0, "10.0.0.9", "10.0.0.1"))
	f.Add(ipv4GRH(0x60, "10.0.0.9", "10.0.0.1"))
	f.Add(ipv6GRH(17, "2001:db8::9", "fe80::1")[:39])
	f.Add(ipv6GRH(0x1b, "2001:db8::9", "fe80::1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := uverbs.ParseGRH(b)
		if err != nil {
			if g != (uverbs.GRH{}) {
				t.Errorf("%+v with %v", g, err)
			}
			return
		}
		src, dst := b[8:24], b[24:40]
		if g.SGID.Addr().Is4() && string(g.SGID[:]) != string(src) {
			src, dst = b[32:36], b[36:40]
		}
		if !strings.HasSuffix(string(g.SGID[:]), string(src)) || !strings.HasSuffix(string(g.DGID[:]), string(dst)) || g.FlowLabel >= 1<<20 {
			t.Errorf("%x: %+v", b, g)
		}
	})
}

// TestAHNumber checks that an AH has a number if the provider gives it one.
func TestAHNumber(t *testing.T) {
	w := newSpyWorld(t, false)
	ah := must[*uverbs.AH](t)(w.pd.CreateAH(&verbs.AHAttr{Global: true, DGID: fakeverbs.GID, Port: 1}))
	defer closeAll(t, ah)
	if n, ok := ah.Number(); n != 7 || !ok {
		t.Error(n, ok)
	}
	if n, ok := new(uverbs.AH).Number(); n != 0 || ok {
		t.Error(n, ok)
	}
}
