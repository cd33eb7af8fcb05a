package main

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

func TestKeepNetdevRefusesLo(t *testing.T) {
	tool, kernel, nets := machine()
	const want = `rdmalink: add siw1: lo has no hardware address, from which siw makes the GID of the link:
it would come up, but every connection through it would fail. Run first
  ip link set lo address 02:00:00:00:00:01
  ip addr add 192.0.2.1/32 dev lo
or let rdmalink do that: leave out --keep-netdev
`
	if diff := cmp.Diff(result{Code: 1, Err: want}, tool.runLine("add siw1 type siw netdev lo --keep-netdev", nets)); diff != "" {
		t.Error(diff)
	}
	if len(kernel.Devices) != 1 {
		t.Error("the link was added all the same")
	}
}

// randomPart is what differs from run to run in the notes.
var randomPart = regexp.MustCompile(`02(:[0-9a-f]{2}){5}`)

// TestAddMakesReady: only what is missing is set, and add tells how to undo it.
func TestAddMakesReady(t *testing.T) {
	const (
		mac  = "hardware address set to MAC; the kernel can't make it zero again, and lo needs none to work as before"
		addr = "address 192.0.2.%d/32 added; to undo: ip addr del 192.0.2.%[1]d/32 dev %s"
		up   = "set up; to undo: ip link set %s down"
	)
	ipv4, ipv6 := netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("fd09::9")
	for _, test := range []struct {
		name, typ, netdev string
		edit              func(d *host.Netdev, others []host.Netdev)
		calls, notes      []string
	}{
		{"fresh lo", "siw", "lo", nil, []string{"addr lo 192.0.2.1/32", "mac lo"}, []string{fmt.Sprintf(addr, 1, "lo"), mac}},
		{"lo of a fresh namespace", "siw", "lo", func(d *host.Netdev, _ []host.Netdev) { d.Up, d.Addrs = false, nil },
			[]string{"addr lo 192.0.2.1/32", "up lo", "mac lo"}, []string{fmt.Sprintf(addr, 1, "lo"), fmt.Sprintf(up, "lo"), mac}},
		{"lo with an address", "siw", "lo", func(d *host.Netdev, _ []host.Netdev) { d.Addrs = append(d.Addrs, ipv4) }, []string{"mac lo"}, []string{mac}},
		{"lo with IPv6 only", "siw", "lo", func(d *host.Netdev, _ []host.Netdev) { d.Addrs = append(d.Addrs, ipv6) },
			[]string{"addr lo 192.0.2.1/32", "mac lo"}, []string{fmt.Sprintf(addr, 1, "lo"), mac}},
		{"lo with a MAC", "siw", "lo", func(d *host.Netdev, _ []host.Netdev) { d.HasMAC = true }, []string{"addr lo 192.0.2.1/32"}, []string{fmt.Sprintf(addr, 1, "lo")}},
		{"lo that has all", "siw", "lo", func(d *host.Netdev, _ []host.Netdev) { d.HasMAC, d.Addrs = true, []netip.Addr{ipv4} }, nil, nil},
		{"siw, bare", "siw", "bare", nil, []string{"addr bare 192.0.2.1/32", "up bare"}, []string{fmt.Sprintf(addr, 1, "bare"), fmt.Sprintf(up, "bare")}},
		{"rxe, bare", "rxe", "bare", nil, []string{"addr bare 192.0.2.1/32", "up bare"}, []string{fmt.Sprintf(addr, 1, "bare"), fmt.Sprintf(up, "bare")}},
		{"down", "rxe", "bare", func(d *host.Netdev, _ []host.Netdev) { d.Addrs = []netip.Addr{ipv4} }, []string{"up bare"}, []string{fmt.Sprintf(up, "bare")}},
		{"IPv6 only", "siw", "bare", func(d *host.Netdev, _ []host.Netdev) { d.Up, d.Addrs = true, []netip.Addr{ipv6} }, nil, nil},
		{"address taken", "rxe", "bare", func(d *host.Netdev, others []host.Netdev) {
			d.Up, others[0].Addrs = true, []netip.Addr{host.SpareAddr.Addr(), host.SpareAddr.Addr().Next()}
		}, []string{"addr bare 192.0.2.3/32"}, []string{fmt.Sprintf(addr, 3, "bare")}},
	} {
		tool, kernel, nets := machine()
		i := slices.IndexFunc(nets.All, func(d host.Netdev) bool { return d.Name == test.netdev })
		if test.edit != nil {
			nets.All[i].Addrs = slices.Clone(nets.All[i].Addrs)
			test.edit(&nets.All[i], nets.All)
		}
		line := "add new0 type " + test.typ + " netdev " + test.netdev
		got := tool.runLine(line, nets)
		got.Err = randomPart.ReplaceAllString(got.Err, "MAC")
		want := result{NetdevCalls: test.calls}
		for _, n := range test.notes {
			want.Err += "rdmalink: note: " + test.netdev + ": " + n + "\n"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if len(kernel.Devices) != 2 {
			t.Errorf("%s: %d devices", test.name, len(kernel.Devices))
		}
		if again := tool.runLine(line, nets); again.Code != 1 || strings.Contains(again.Err, "note") || len(again.NetdevCalls) != len(test.calls) {
			t.Errorf("%s, again: %+v", test.name, again)
		}
	}
}

// TestAddAfterMAC: siw reads the hardware address when a link is added, so the
// link that stays is the one added after the change.
func TestAddAfterMAC(t *testing.T) {
	tool, kernel, nets := machine()
	before := len(kernel.Requests)
	if got := tool.runLine("add siw1 type siw netdev lo", nets); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	var ops []uint16
	for _, r := range kernel.Requests[before:] {
		if r.Op == abi.RDMA_NLDEV_CMD_NEWLINK || r.Op == abi.RDMA_NLDEV_CMD_DELLINK {
			ops = append(ops, r.Op)
		}
	}
	want := []uint16{abi.RDMA_NLDEV_CMD_NEWLINK, abi.RDMA_NLDEV_CMD_DELLINK, abi.RDMA_NLDEV_CMD_NEWLINK}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Error(diff)
	}
}

// TestAddLeavesNothing: what was set is undone when the link can't be added, or
// when a later change fails. lo is not touched before the trial.
func TestAddLeavesNothing(t *testing.T) {
	refused := func(k *nltest.Kernel, _ *hosttest.Netdevs) {
		k.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_NEWLINK: syscall.EPERM}
	}
	fails := func(call string, errno syscall.Errno) func(*nltest.Kernel, *hosttest.Netdevs) {
		return func(_ *nltest.Kernel, n *hosttest.Netdevs) { n.Fail = map[string]error{call: errno} }
	}
	const permission = "needs CAP_NET_ADMIN in the initial user namespace (run as root, or setcap cap_net_admin+ep): operation not permitted\n"
	for _, test := range []struct {
		line  string
		set   func(*nltest.Kernel, *hosttest.Netdevs)
		err   string
		calls []string
	}{
		{"add new0 type siw netdev lo", refused, "add link new0 type siw netdev lo: " + permission, nil},
		{"add new0 type siw netdev bare", refused, "add link new0 type siw netdev bare: " + permission,
			[]string{"addr bare 192.0.2.1/32", "up bare", "down bare", "addr del bare 192.0.2.1/32"}},
		{"add new0 type rxe netdev bare", fails("up", syscall.ENETDOWN), "add new0: fix bare: set it up: network is down\n",
			[]string{"addr bare 192.0.2.1/32", "up bare", "addr del bare 192.0.2.1/32"}},
		{"add new0 type rxe netdev bare", fails("addr", syscall.EPERM), "add new0: fix bare: add the address 192.0.2.1/32: operation not permitted (needs CAP_NET_ADMIN: run as root)\n",
			[]string{"addr bare 192.0.2.1/32"}},
		{"add new0 type siw netdev lo", fails("mac", syscall.EPERM), "add new0: fix lo: set its hardware address: operation not permitted (needs CAP_NET_ADMIN: run as root)\n",
			[]string{"addr lo 192.0.2.1/32", "mac lo", "addr del lo 192.0.2.1/32"}},
		{"add siw0 type siw netdev lo", func(*nltest.Kernel, *hosttest.Netdevs) {}, "add siw0: the name siw0 is taken: choose another, or rdmalink del siw0 (too many open files in system)\n", nil},
		{"add new0 type foo netdev bare", func(*nltest.Kernel, *hosttest.Netdevs) {},
			"add new0: the kernel has no link type \"foo\" and found no module rdma-link-foo for it, or the driver does not take bare. The types are siw and rxe (invalid argument)\n", nil},
		{"add new0 type siw netdev bare", func(k *nltest.Kernel, n *hosttest.Netdevs) {
			refused(k, n)
			fails("addr del", syscall.EBUSY)(k, n)
		}, "add link new0 type siw netdev bare: " + permission + "bare: address 192.0.2.1/32 added; to undo: ip addr del 192.0.2.1/32 dev bare (device or resource busy)\n",
			[]string{"addr bare 192.0.2.1/32", "up bare", "down bare", "addr del bare 192.0.2.1/32"}},
	} {
		tool, kernel, nets := machine()
		test.set(kernel, nets)
		want := result{Code: 1, Err: "rdmalink: " + test.err, NetdevCalls: test.calls}
		if diff := cmp.Diff(want, tool.runLine(test.line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.line, diff)
		}
		if len(kernel.Devices) != 1 {
			t.Errorf("%s: %d devices", test.line, len(kernel.Devices))
		}
	}
}

// TestNoAddressFree: another network would hide hosts.
func TestNoAddressFree(t *testing.T) {
	tool, _, nets := machine()
	for a := fixNet.Addr(); fixNet.Contains(a); a = a.Next() {
		nets.All[1].Addrs = append(slices.Clone(nets.All[1].Addrs), a)
	}
	want := result{Code: 1, Err: "rdmalink: add rxe1: no address of 192.0.2.0/24 is free\n"}
	if diff := cmp.Diff(want, tool.runLine("add rxe1 type rxe netdev bare", nets)); diff != "" {
		t.Error(diff)
	}
}

// TestAddInBatch: the flag of one line does not hold for the next.
func TestAddInBatch(t *testing.T) {
	tool, kernel, nets := machine()
	tool.stdin = strings.NewReader("add siw1 type siw netdev bare --keep-netdev\ndel siw1\nadd rxe1 type rxe netdev bare\nadd siw2 type siw netdev lo\n")
	got := tool.runLine("-j -b -", nets)
	want := []string{"addr bare 192.0.2.1/32", "up bare", "addr lo 192.0.2.2/32", "mac lo"}
	if diff := cmp.Diff(want, got.NetdevCalls); got.Code != 0 || got.Out != "" || diff != "" {
		t.Errorf("%+v\n%s", got, diff)
	}
	if !slices.ContainsFunc(kernel.Devices, func(d netlinkrdma.Device) bool { return d.Name == "siw2" }) {
		t.Errorf("no siw2 among %v", kernel.Devices)
	}
}

func TestNotes(t *testing.T) {
	const rxeOnLo = "rdmalink: note: rdma_cm can't connect through rxe on lo; verbs alone work (GID index 1). For rdma_cm use a dummy or veth device\n"
	for line, want := range map[string]string{
		"add siw1 type siw netdev bare --keep-netdev": "rdmalink: note: bare is down, and so is siw1: ip link set bare up\n" +
			"rdmalink: note: bare has no IP address outside 127/8, by which rdma_cm would find siw1: ip addr add ADDRESS/LENGTH dev bare\n",
		"add rxe1 type rxe netdev lo":               rxeOnLo,
		"add rxe1 type rxe netdev lo --keep-netdev": rxeOnLo,
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
