package netif

import (
	"net"
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestHas checks which GIDs are an interface's.
func TestHas(t *testing.T) {
	i := Interface{Name: "eth0", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}}
	for gid, want := range map[verbs.GID]bool{
		verbs.GIDFromAddr(netip.MustParseAddr("10.0.0.1")):            true,
		verbs.GIDFromAddr(netip.MustParseAddr("fd00::1")):             true,
		verbs.GIDFromAddr(netip.MustParseAddr("fe80::ff:fe00:1")):     true, // default GID
		verbs.GIDFromAddr(netip.MustParseAddr("10.0.0.2")):            false,
		verbs.GIDFromAddr(netip.MustParseAddr("fe80::200:ff:fe00:1")): false,
		{}: false,
	} {
		if got := i.Has(gid); got != want {
			t.Errorf("%v: %t", gid, got)
		}
	}
	var none Interface
	if none.Has(verbs.GID{}) {
		t.Error("an interface without a MAC address has the zero GID")
	}
}

// TestZoneIndex checks zones that are numbers, names and none.
func TestZoneIndex(t *testing.T) {
	for addr, want := range map[string]uint32{"fe80::1": 0, "10.0.0.1": 0, "fe80::1%7": 7} {
		if got, err := ZoneIndex(netip.MustParseAddr(addr)); got != want || err != nil {
			t.Errorf("%s: %d, %v", addr, got, err)
		}
	}
	if _, err := ZoneIndex(netip.MustParseAddr("fe80::1%no such name")); err == nil {
		t.Error("an unknown zone has an index")
	}
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, ifi := range all {
		if got, err := ZoneIndex(netip.MustParseAddr("fe80::1%" + ifi.Name)); got != uint32(ifi.Index) || err != nil {
			t.Errorf("%s: %d, %v", ifi.Name, got, err)
		}
		i, err := ByIndex(uint32(ifi.Index))
		if addrs, _ := ifi.Addrs(); err != nil || i.Name != ifi.Name || len(i.Addrs) != len(addrs) {
			t.Errorf("%+v, %v", i, err)
		}
	}
}
