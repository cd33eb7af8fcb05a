package peer

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
)

func TestAddrOf(t *testing.T) {
	mapped := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1).To16(), Port: 1}
	if got := AddrOf(mapped); got != netip.MustParseAddr("10.0.0.1") {
		t.Error(got)
	}
	if got := AddrOf(&net.UnixAddr{Name: "socket"}); got.IsValid() {
		t.Error(got)
	}
}

func TestGIDChoices(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1%eth0")
	for _, test := range []struct {
		own, peer netip.Addr
		want      []uverbs.GIDChoice
	}{
		{v4, v4, []uverbs.GIDChoice{{Addr: v4}, {IPv4: true}, {}}},
		{v6, v6, []uverbs.GIDChoice{{Addr: v6}, {IPv6: true}, {}}},
		{v4, v6, []uverbs.GIDChoice{{IPv6: true}, {}}},
		{v6, v4, []uverbs.GIDChoice{{IPv4: true}, {}}},
	} {
		if diff := cmp.Diff(test.want, gidChoices(test.own, test.peer), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%v, %v: %s", test.own, test.peer, diff)
		}
	}
}
