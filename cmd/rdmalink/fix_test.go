package main

import (
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoIsRefusedWithRemedy(t *testing.T) {
	tool, kernel, nets := machine()
	const want = `rdmalink: add siw1: lo has no hardware address, from which siw makes the GID of the link:
it would come up, but every connection through it would fail. Run first
  ip link set lo address 02:00:00:00:00:01
  ip addr add 192.0.2.1/32 dev lo
or let rdmalink do that: rdmalink add --fix-netdev …
`
	if diff := cmp.Diff(result{Code: 1, Err: want}, tool.runLine("add siw1 type siw netdev lo", nets)); diff != "" {
		t.Error(diff)
	}
	if len(kernel.Devices) != 1 {
		t.Error("the link was added all the same")
	}
}

// TestFixNetdev: only what is missing is changed, and before the link is added.
func TestFixNetdev(t *testing.T) {
	address := netip.MustParseAddr("10.9.9.9")
	for _, test := range []struct {
		name string
		edit func(lo *netdev)
		want []string
	}{
		{"fresh", func(*netdev) {}, []string{"mac lo", "addr lo 192.0.2.1/32"}},
		{"fresh namespace", func(lo *netdev) { lo.up, lo.addrs = false, nil }, []string{"mac lo", "addr lo 192.0.2.1/32", "up lo"}},
		{"has an address", func(lo *netdev) { lo.addrs = append(lo.addrs, address) }, []string{"mac lo"}},
		{"has a MAC", func(lo *netdev) { lo.hasMAC = true }, []string{"addr lo 192.0.2.1/32"}},
		{"has both", func(lo *netdev) { lo.hasMAC, lo.addrs = true, []netip.Addr{address} }, nil},
	} {
		tool, kernel, nets := machine()
		lo := loopback
		lo.addrs = slices.Clone(lo.addrs)
		test.edit(&lo)
		nets.all[0] = lo
		got := tool.runLine("add siw1 type siw netdev lo --fix-netdev", nets)
		if got.Code != 0 || got.Out != "" || strings.Count(got.Err, "rdmalink: note: lo: ") != len(test.want) {
			t.Errorf("%s: %+v", test.name, got)
		}
		if diff := cmp.Diff(test.want, got.NetdevCalls); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if len(kernel.Devices) != 2 {
			t.Errorf("%s: no link was added", test.name)
		}
	}
}

func TestFixNetdevFails(t *testing.T) {
	tool, kernel, nets := machine()
	nets.fail = syscall.EPERM
	got := tool.runLine("add --fix-netdev siw1 type siw netdev lo", nets)
	const want = "rdmalink: add siw1: fix lo: set its hardware address: operation not permitted (needs CAP_NET_ADMIN: run as root)\n"
	if diff := cmp.Diff(result{Code: 1, Err: want, NetdevCalls: []string{"mac lo"}}, got); diff != "" {
		t.Error(diff)
	}
	if len(kernel.Devices) != 1 {
		t.Error("the link was added all the same")
	}
}

func TestNotes(t *testing.T) {
	for line, want := range map[string]string{
		"add siw1 type siw netdev bare": "rdmalink: note: bare is down, and so is siw1: ip link set bare up\n" +
			"rdmalink: note: bare has no IP address outside 127/8, by which rdma_cm would find siw1: ip addr add ADDRESS/LENGTH dev bare\n",
		"add rxe1 type rxe netdev lo": "rdmalink: note: rdma_cm can't connect through rxe on lo; verbs alone work (GID index 1). For rdma_cm use a dummy or veth device\n",
	} {
		tool, kernel, nets := machine()
		if diff := cmp.Diff(result{Err: want}, tool.runLine(line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		if len(kernel.Devices) != 2 {
			t.Errorf("%s: no link was added", line)
		}
	}
}
