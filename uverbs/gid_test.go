package uverbs_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// port1 has the attributes of a device's only port.
type port1 struct {
	link  verbs.LinkLayer
	state uint8
	gids  []verbs.GIDEntry
}

func gidEntry(index uint32, addr string, typ verbs.GIDType) verbs.GIDEntry {
	return verbs.GIDEntry{GID: verbs.GIDFromAddr(netip.MustParseAddr(addr)), Type: typ, Index: index, Port: 1, NetdevIndex: 1}
}

// openPort opens a device with that port.
func openPort(t testing.TB, p *port1) (*fakeverbs.Kernel, *uverbs.Device) {
	t.Helper()
	k := fakeverbs.New(uint32(verbs.DriverHNS))
	k.Tamper = func(call string, r *ioctl.Request) {
		switch call {
		case "QUERY_PORT":
			ioctl.Answer(r, abi.UVERBS_ATTR_QUERY_PORT_RESP, &abi.IbUverbsQueryPortRespEx{LegacyResp: abi.IbUverbsQueryPortResp{
				State: p.state, LinkLayer: uint8(p.link), ActiveMtu: uint8(verbs.MTU1024)}})
		case "QUERY_GID_TABLE":
			var entries [16]abi.IbUverbsGidEntry
			n := uint64(len(p.gids))
			for i, g := range p.gids {
				entries[i] = abi.IbUverbsGidEntry{GidType: uint32(g.Type), GidIndex: g.Index, PortNum: uint32(g.Port), NetdevIfindex: g.NetdevIndex,
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
var both = []verbs.GIDEntry{
	gidEntry(0, "fe80::1", verbs.GIDTypeRoCEv1), gidEntry(1, "fe80::1", verbs.GIDTypeRoCEv2),
	gidEntry(2, "2001:db8::1", verbs.GIDTypeRoCEv1), gidEntry(3, "2001:db8::1", verbs.GIDTypeRoCEv2),
	gidEntry(4, "10.0.0.1", verbs.GIDTypeRoCEv1), gidEntry(5, "10.0.0.1", verbs.GIDTypeRoCEv2),
	gidEntry(6, "10.0.0.2", verbs.GIDTypeRoCEv2), {GID: verbs.GID{1}, Index: 7, Port: 2, Type: verbs.GIDTypeRoCEv2},
	gidEntry(256, "10.0.0.3", verbs.GIDTypeRoCEv2),
}

// vlan has the link-local address of a device, and of a VLAN above it.
var vlan = []verbs.GIDEntry{gidEntry(0, "fe80::1", verbs.GIDTypeRoCEv2),
	{GID: verbs.GIDFromAddr(netip.MustParseAddr("fe80::1")), Type: verbs.GIDTypeRoCEv2, Index: 1, Port: 1, NetdevIndex: 12345}}

// addresses returns a table of RoCE v2 GIDs.
func addresses(addrs ...string) (table []verbs.GIDEntry) {
	for i, a := range addrs {
		table = append(table, gidEntry(uint32(i), a, verbs.GIDTypeRoCEv2))
	}
	return table
}

// TestChooseGIDNamespace checks that a GID of an interface of this network namespace is chosen before those of others, though
// they have better addresses, or their interfaces the number of one of this namespace.
func TestChooseGIDNamespace(t *testing.T) {
	ifis, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, ifi := range ifis {
		addrs, err := ifi.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			ip := netip.MustParsePrefix(a.String()).Addr()
			table := append(addresses("198.18.77.1", "198.18.77.2", "169.254.77.9"), gidEntry(3, ip.String(), verbs.GIDTypeRoCEv1))
			for i := range table {
				table[i].NetdevIndex = uint32(ifi.Index)
			}
			table[0].NetdevIndex = 1 << 30
			if _, dev := openPort(t, &port1{verbs.LinkEthernet, active, table}); dev != nil {
				if e, err := dev.ChooseGID(1, nil); err != nil || e.Index != 3 {
					t.Errorf("%v on %s: %+v, %v", ip, ifi.Name, e, err)
				}
			}
		}
	}
}

func TestChooseGID(t *testing.T) {
	addr := netip.MustParseAddr
	ib := []verbs.GIDEntry{gidEntry(0, "fe80::1", verbs.GIDTypeIB), gidEntry(1, "2001:db8::1", verbs.GIDTypeIB)}
	for _, c := range []struct {
		name   string
		link   verbs.LinkLayer
		gids   []verbs.GIDEntry
		choice *uverbs.GIDChoice
		want   uint32
	}{
		{"best", verbs.LinkEthernet, both, nil, 5},
		{"IPv4", verbs.LinkEthernet, both, &uverbs.GIDChoice{IPv4: true}, 5},
		{"IPv6", verbs.LinkEthernet, both, &uverbs.GIDChoice{IPv6: true}, 3},
		{"either", verbs.LinkEthernet, both, &uverbs.GIDChoice{IPv4: true, IPv6: true}, 5},
		{"v1", verbs.LinkEthernet, both, &uverbs.GIDChoice{Type: verbs.GIDTypeRoCEv1}, 4},
		{"v1, IPv6", verbs.LinkEthernet, both, &uverbs.GIDChoice{Type: verbs.GIDTypeRoCEv1, IPv6: true}, 2},
		{"IPv4 address", verbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("10.0.0.2")}, 6},
		{"mapped address", verbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("::ffff:10.0.0.2")}, 6},
		{"IPv6 address", verbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("2001:db8::1")}, 3},
		{"address with a zone", verbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("fe80::1%1")}, 1},
		{"link-local of a VLAN", verbs.LinkEthernet, vlan, &uverbs.GIDChoice{Addr: addr("fe80::1%12345")}, 1},
		{"link-local below a VLAN", verbs.LinkEthernet, vlan, &uverbs.GIDChoice{Addr: addr("fe80::1%1")}, 0},
		{"IPv4 before link-local IPv4", verbs.LinkEthernet, addresses("169.254.7.7", "10.0.0.1"), nil, 1},
		{"IPv6 before link-local IPv4", verbs.LinkEthernet, addresses("fe80::1", "169.254.7.7", "fd00::8"), nil, 2},
		{"link-local IPv4 before link-local IPv6", verbs.LinkEthernet, addresses("fe80::1", "169.254.7.7"), nil, 1},
		{"address and type", verbs.LinkEthernet, both, &uverbs.GIDChoice{Addr: addr("fe80::1"), Type: verbs.GIDTypeRoCEv1}, 0},
		{"link-local v2 before IPv4 v1", verbs.LinkEthernet, []verbs.GIDEntry{both[4], both[1]}, nil, 1},
		{"InfiniBand", verbs.LinkInfiniBand, ib, nil, 0},
		{"no say is InfiniBand", verbs.LinkUnspecified, ib, nil, 0},
		{"iWARP", verbs.LinkEthernet, ib[:1], nil, 0},
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
		{"down", port1{verbs.LinkEthernet, 1, both}, nil, []string{"the port is DOWN"}},
		{"empty", port1{verbs.LinkEthernet, active, nil}, nil, []string{"has no GIDs", "ip addr add"}},
		{"no IPv4", port1{verbs.LinkEthernet, active, v6}, &uverbs.GIDChoice{IPv4: true}, []string{"0 fe80::1 (RoCE v1), 1 fe80::1 (RoCE v2)", "add an address to"}},
		{"no such address", port1{verbs.LinkEthernet, active, both}, &uverbs.GIDChoice{Addr: netip.MustParseAddr("10.9.9.9")}, []string{"5 10.0.0.1 (RoCE v2)", "add 10.9.9.9 to"}},
		{"beyond 255", port1{verbs.LinkEthernet, active, both}, &uverbs.GIDChoice{Addr: netip.MustParseAddr("10.0.0.3")}, []string{"256 10.0.0.3"}},
		{"InfiniBand", port1{verbs.LinkInfiniBand, active, nil}, nil, []string{"the port has no GIDs"}},
		{"unknown zone", port1{verbs.LinkEthernet, active, both}, &uverbs.GIDChoice{Addr: netip.MustParseAddr("fe80::1%no such name")}, []string{"interface of fe80::1%no such name"}},
		{"another zone", port1{verbs.LinkEthernet, active, both}, &uverbs.GIDChoice{Addr: netip.MustParseAddr("fe80::1%2")}, []string{"1 fe80::1 (RoCE v2)"}},
	} {
		_, dev := openPort(t, &c.port)
		_, err := dev.ChooseGID(1, c.choice)
		if !errors.Is(err, verbs.ErrNoGID) || !strings.Contains(err.Error(), "choose a GID of port 1 of") {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.name, err, want)
			}
		}
	}
	k, dev := openPort(t, &port1{verbs.LinkEthernet, active, both})
	for _, call := range []string{"QUERY_PORT", "QUERY_GID_TABLE"} {
		k.Fail(call, 0, errGaveUp)
		if _, err := dev.ChooseGID(1, nil); !errors.Is(err, errGaveUp) {
			t.Errorf("%s: %v", call, err)
		}
	}
}
