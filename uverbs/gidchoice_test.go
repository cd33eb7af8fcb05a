package uverbs_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/uverbs/driver"
)

// port1 is what a device says of its only port.
type port1 struct {
	link  uverbs.LinkLayer
	state uint8
	gids  []uverbs.GIDEntry
}

func gidEntry(index uint32, addr string, typ uverbs.GIDType) uverbs.GIDEntry {
	return uverbs.GIDEntry{GID: uverbs.GIDFromAddr(netip.MustParseAddr(addr)), Type: typ, Index: index, Port: 1, NetdevIndex: 1}
}

// openPort opens a device with that port.
func openPort(t testing.TB, p *port1) (*fakeverbs.Kernel, *uverbs.Device) {
	t.Helper()
	k := fakeverbs.New(uint32(uverbs.DriverHNS))
	k.Tamper = func(call string, r *ioctl.Request) {
		switch call {
		case "QUERY_PORT":
			ioctl.Answer(r, abi.UVERBS_ATTR_QUERY_PORT_RESP, &abi.IbUverbsQueryPortRespEx{LegacyResp: abi.IbUverbsQueryPortResp{
				State: p.state, LinkLayer: uint8(p.link), ActiveMtu: uint8(uverbs.MTU1024)}})
		case "QUERY_GID_TABLE":
			var entries [16]abi.IbUverbsGidEntry
			n := uint64(len(p.gids))
			for i, g := range p.gids {
				entries[i] = abi.IbUverbsGidEntry{GidType: uint32(g.Type), GidIndex: g.Index, PortNum: g.Port, NetdevIfindex: g.NetdevIndex,
					Gid: [2]uint64{binary.NativeEndian.Uint64(g.GID[:]), binary.NativeEndian.Uint64(g.GID[8:])}}
			}
			ioctl.Answer(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, &entries)
			ioctl.Answer(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n)
		}
	}
	driver.Register(bareProvider{hardware{new(string)}})
	noLeaks(t, k)
	dev := must[*uverbs.Device](t)(openOn(bare0, k))
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return k, dev
}

const active = 4

// both is a port as NICs show it: each address once a type.
var both = []uverbs.GIDEntry{
	gidEntry(0, "fe80::1", uverbs.GIDTypeRoCEv1), gidEntry(1, "fe80::1", uverbs.GIDTypeRoCEv2),
	gidEntry(2, "2001:db8::1", uverbs.GIDTypeRoCEv1), gidEntry(3, "2001:db8::1", uverbs.GIDTypeRoCEv2),
	gidEntry(4, "10.0.0.1", uverbs.GIDTypeRoCEv1), gidEntry(5, "10.0.0.1", uverbs.GIDTypeRoCEv2),
	gidEntry(6, "10.0.0.2", uverbs.GIDTypeRoCEv2), {GID: uverbs.GID{1}, Index: 7, Port: 2, Type: uverbs.GIDTypeRoCEv2},
	gidEntry(256, "10.0.0.3", uverbs.GIDTypeRoCEv2),
}

func TestChooseGID(t *testing.T) {
	addr := netip.MustParseAddr
	ib := []uverbs.GIDEntry{gidEntry(0, "fe80::1", uverbs.GIDTypeIB), gidEntry(1, "2001:db8::1", uverbs.GIDTypeIB)}
	for _, c := range []struct {
		name   string
		link   uverbs.LinkLayer
		gids   []uverbs.GIDEntry
		choice *uverbs.GIDChoice
		want   uint32
	}{
		{"best", uverbs.LinkEthernet, both, nil, 5},
		{"IPv4", uverbs.LinkEthernet, both, &uverbs.GIDChoice{IPv4: true}, 5},
		{"IPv6", uverbs.LinkEthernet, both, &uverbs.GIDChoice{IPv6: true}, 3},
		{"either", uverbs.LinkEthernet, both, &uverbs.GIDChoice{IPv4: true, IPv6: true}, 5},
		{"v1", uverbs.LinkEthernet, both, &uverbs.GIDChoice{Type: uverbs.GIDTypeRoCEv1}, 4},
		{"v1, IPv6", uverbs.LinkEthernet, both, &uverbs.GIDChoice{Type: uverbs.GIDTypeRoCEv1, IPv6: true}, 2},
		{"IPv4 address", uverbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("10.0.0.2")}, 6},
		{"mapped address", uverbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("::ffff:10.0.0.2")}, 6},
		{"IPv6 address", uverbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("2001:db8::1")}, 3},
		{"address with a zone", uverbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("fe80::1%eth0")}, 1},
		{"address and type", uverbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("fe80::1"), Type: uverbs.GIDTypeRoCEv1}, 0},
		{"link-local v2 before IPv4 v1", uverbs.LinkEthernet, []uverbs.GIDEntry{both[4], both[1]}, nil, 1},
		{"InfiniBand", uverbs.LinkInfiniBand, ib, nil, 0},
		{"no say is InfiniBand", uverbs.LinkUnspecified, ib, nil, 0},
		{"iWARP", uverbs.LinkEthernet, ib[:1], nil, 0},
	} {
		_, dev := openPort(t, &port1{c.link, active, c.gids})
		if e, err := dev.ChooseGID(1, c.choice); err != nil || e.Index != c.want || e.Port != 1 {
			t.Errorf("%s: %+v, %v, want index %d", c.name, e, err, c.want)
		}
	}
}

func TestChooseGIDRefused(t *testing.T) {
	v6 := both[:4]
	for _, c := range []struct {
		name   string
		port   port1
		choice *uverbs.GIDChoice
		want   []string
	}{
		{"down", port1{uverbs.LinkEthernet, 1, both}, nil, []string{"the port is DOWN"}},
		{"empty", port1{uverbs.LinkEthernet, active, nil}, nil, []string{"has none", "ip addr add"}},
		{"no IPv4", port1{uverbs.LinkEthernet, active, v6}, &uverbs.GIDChoice{IPv4: true}, []string{"0 fe80::1 (RoCE v1), 1 fe80::1 (RoCE v2)", "add an address to"}},
		{"no such address", port1{uverbs.LinkEthernet, active, both}, &uverbs.GIDChoice{Addr: netip.MustParseAddr("10.9.9.9")}, []string{"5 10.0.0.1 (RoCE v2)", "add 10.9.9.9 to"}},
		{"beyond 255", port1{uverbs.LinkEthernet, active, both}, &uverbs.GIDChoice{Addr: netip.MustParseAddr("10.0.0.3")}, []string{"256 10.0.0.3"}},
		{"InfiniBand", port1{uverbs.LinkInfiniBand, active, nil}, nil, []string{"the port has none"}},
	} {
		_, dev := openPort(t, &c.port)
		_, err := dev.ChooseGID(1, c.choice)
		if !errors.Is(err, uverbs.ErrNoGID) || !strings.Contains(err.Error(), "choose a GID of port 1 of") {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.name, err, want)
			}
		}
	}
	k, dev := openPort(t, &port1{uverbs.LinkEthernet, active, both})
	for _, call := range []string{"QUERY_PORT", "QUERY_GID_TABLE"} {
		k.Fail(call, 0, errGaveUp)
		if _, err := dev.ChooseGID(1, nil); !errors.Is(err, errGaveUp) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestGIDAddr(t *testing.T) {
	for _, c := range []struct {
		addr, gid string
		multicast bool
	}{
		{"10.0.0.1", "::ffff:10.0.0.1", false}, {"2001:db8::1", "2001:db8::1", false}, {"fe80::1", "fe80::1", false},
		{"239.1.2.3", "::ffff:239.1.2.3", true}, {"ff0e::1", "ff0e::1", true},
	} {
		g := uverbs.GIDFromAddr(netip.MustParseAddr(c.addr))
		if g.String() != c.gid || g.Addr().String() != c.addr || g.IsMulticast() != c.multicast {
			t.Errorf("%s: %v, %v, %v", c.addr, g, g.Addr(), g.IsMulticast())
		}
	}
	if g := uverbs.GIDFromAddr(netip.Addr{}); g != (uverbs.GID{}) {
		t.Error(g)
	}
}
