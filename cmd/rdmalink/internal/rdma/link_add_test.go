package rdma

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

func TestKeepNetdevRefusesLo(t *testing.T) {
	tool, kernel, nets := clitest.Machine()
	const want = `rdmalink: add siw1: lo has no hardware address, from which siw derives the GID of the link:
the link would come up, but every connection through it would fail. Run first
  ip link set lo address 02:00:00:00:00:01
  ip addr add 192.0.2.1/32 dev lo
or let rdmalink do that: leave out --keep-netdev
`
	if diff := cmp.Diff(clitest.Result{Code: 1, Err: want}, runLine(tool, "add siw1 type siw netdev lo --keep-netdev", nets)); diff != "" {
		t.Error(diff)
	}
	if len(kernel.Devices) != 1 {
		t.Error("the link was added all the same")
	}
}

// randomPart matches the part of the notes that is random.
var randomPart = regexp.MustCompile(`02(:[0-9a-f]{2}){5}`)

// TestAddMakesReady checks that add sets only missing properties, and prints how to
// undo each change.
func TestAddMakesReady(t *testing.T) {
	const (
		mac  = "hardware address set to MAC; the kernel can't make it zero again, and lo needs none to work as before"
		addr = "address 192.0.2.%d/32 added; to undo: ip addr del 192.0.2.%[1]d/32 dev %s"
		up   = "set up; to undo: ip link set %s down"
	)
	ipv4, ipv6 := netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("fd09::9")
	for _, test := range []struct {
		name, typ, netdev string
		edit              func(d *addlink.Netdev, others []addlink.Netdev)
		calls, notes      []string
	}{
		{"fresh lo", "siw", "lo", nil, []string{"addr lo 192.0.2.1/32", "mac lo"}, []string{fmt.Sprintf(addr, 1, "lo"), mac}},
		{"lo of a fresh namespace", "siw", "lo", func(d *addlink.Netdev, _ []addlink.Netdev) { d.Up, d.Addrs = false, nil },
			[]string{"addr lo 192.0.2.1/32", "up lo", "mac lo"}, []string{fmt.Sprintf(addr, 1, "lo"), fmt.Sprintf(up, "lo"), mac}},
		{"lo with an address", "siw", "lo", func(d *addlink.Netdev, _ []addlink.Netdev) { d.Addrs = append(d.Addrs, ipv4) }, []string{"mac lo"}, []string{mac}},
		{"lo with IPv6 only", "siw", "lo", func(d *addlink.Netdev, _ []addlink.Netdev) { d.Addrs = append(d.Addrs, ipv6) },
			[]string{"addr lo 192.0.2.1/32", "mac lo"}, []string{fmt.Sprintf(addr, 1, "lo"), mac}},
		{"lo with a MAC", "siw", "lo", func(d *addlink.Netdev, _ []addlink.Netdev) { d.MAC = hosttest.MAC }, []string{"addr lo 192.0.2.1/32"}, []string{fmt.Sprintf(addr, 1, "lo")}},
		{"lo that has all", "siw", "lo", func(d *addlink.Netdev, _ []addlink.Netdev) { d.MAC, d.Addrs = hosttest.MAC, []netip.Addr{ipv4} }, nil, nil},
		{"siw, bare", "siw", "bare", nil, []string{"addr bare 192.0.2.1/32", "up bare"}, []string{fmt.Sprintf(addr, 1, "bare"), fmt.Sprintf(up, "bare")}},
		{"rxe, bare", "rxe", "bare", nil, []string{"addr bare 192.0.2.1/32", "up bare"}, []string{fmt.Sprintf(addr, 1, "bare"), fmt.Sprintf(up, "bare")}},
		{"down", "rxe", "bare", func(d *addlink.Netdev, _ []addlink.Netdev) { d.Addrs = []netip.Addr{ipv4} }, []string{"up bare"}, []string{fmt.Sprintf(up, "bare")}},
		{"IPv6 only", "siw", "bare", func(d *addlink.Netdev, _ []addlink.Netdev) { d.Up, d.Addrs = true, []netip.Addr{ipv6} }, nil, nil},
		{"address taken", "rxe", "bare", func(d *addlink.Netdev, others []addlink.Netdev) {
			d.Up, others[0].Addrs = true, []netip.Addr{addlink.SpareAddr.Addr(), addlink.SpareAddr.Addr().Next()}
		}, []string{"addr bare 192.0.2.3/32"}, []string{fmt.Sprintf(addr, 3, "bare")}},
	} {
		tool, kernel, nets := clitest.Machine()
		i := slices.IndexFunc(nets.All, func(d addlink.Netdev) bool { return d.Name == test.netdev })
		if test.edit != nil {
			nets.All[i].Addrs = slices.Clone(nets.All[i].Addrs)
			test.edit(&nets.All[i], nets.All)
		}
		line := "add new0 type " + test.typ + " netdev " + test.netdev
		got := runLine(tool, line, nets)
		got.Err = randomPart.ReplaceAllString(got.Err, "MAC")
		want := clitest.Result{NetdevCalls: test.calls}
		for _, n := range test.notes {
			want.Err += "rdmalink: note: " + test.netdev + ": " + n + "\n"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if len(kernel.Devices) != 2 {
			t.Errorf("%s: %d devices", test.name, len(kernel.Devices))
		}
		if again := runLine(tool, line, nets); again.Code != 1 || strings.Contains(again.Err, "note") || len(again.NetdevCalls) != len(test.calls) {
			t.Errorf("%s, again: %+v", test.name, again)
		}
	}
}

// TestAddAfterMAC checks that the remaining link was added after the change,
// because siw reads the hardware address when a link is added.
func TestAddAfterMAC(t *testing.T) {
	tool, kernel, nets := clitest.Machine()
	before := len(kernel.Requests)
	if got := runLine(tool, "add siw1 type siw netdev lo", nets); got.Code != 0 {
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

// TestAddLeavesNothing checks that changes are undone if the link can't be added,
// or if a later change fails, and that lo is unchanged before the trial.
func TestAddLeavesNothing(t *testing.T) {
	refused := func(k *nltest.Kernel, _ *hosttest.Netdevs) {
		k.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_NEWLINK: syscall.EPERM}
	}
	fails := func(call string, errno syscall.Errno) func(*nltest.Kernel, *hosttest.Netdevs) {
		return func(_ *nltest.Kernel, n *hosttest.Netdevs) { n.Fail = map[string]error{call: errno} }
	}
	const permission = "needs CAP_NET_ADMIN in the initial user namespace: operation not permitted: run as root, or setcap cap_net_admin+ep\n"
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
		{"add siw0 type siw netdev lo", func(*nltest.Kernel, *hosttest.Netdevs) {}, "add link siw0 type siw netdev lo: too many open files in system: the name siw0 is taken: choose another, or rdmalink del siw0\n", nil},
		{"add new0 type foo netdev bare", func(*nltest.Kernel, *hosttest.Netdevs) {},
			"add link new0 type foo netdev bare: invalid argument: the kernel has no link type \"foo\" and found no module rdma-link-foo for it, or the driver does not support bare. The types are siw and rxe\n", nil},
		{"add new0 type siw netdev bare", func(k *nltest.Kernel, n *hosttest.Netdevs) {
			refused(k, n)
			fails("addr del", syscall.EBUSY)(k, n)
		}, "add link new0 type siw netdev bare: " + permission + "bare: address 192.0.2.1/32 added; to undo: ip addr del 192.0.2.1/32 dev bare (device or resource busy)\n",
			[]string{"addr bare 192.0.2.1/32", "up bare", "down bare", "addr del bare 192.0.2.1/32"}},
	} {
		tool, kernel, nets := clitest.Machine()
		test.set(kernel, nets)
		want := clitest.Result{Code: 1, Err: "rdmalink: " + test.err, NetdevCalls: test.calls}
		if diff := cmp.Diff(want, runLine(tool, test.line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.line, diff)
		}
		if len(kernel.Devices) != 1 {
			t.Errorf("%s: %d devices", test.line, len(kernel.Devices))
		}
	}
}

// TestNoAddressFree checks that add uses no address of another network, which would
// hide hosts.
func TestNoAddressFree(t *testing.T) {
	tool, _, nets := clitest.Machine()
	fixNet := netip.MustParsePrefix("192.0.2.0/24")
	for a := fixNet.Addr(); fixNet.Contains(a); a = a.Next() {
		nets.All[1].Addrs = append(slices.Clone(nets.All[1].Addrs), a)
	}
	want := clitest.Result{Code: 1, Err: "rdmalink: add rxe1: no address of 192.0.2.0/24 is free\n"}
	if diff := cmp.Diff(want, runLine(tool, "add rxe1 type rxe netdev bare", nets)); diff != "" {
		t.Error(diff)
	}
}

// TestAddInBatch checks that the flag of one line does not apply to the next.
func TestAddInBatch(t *testing.T) {
	tool, kernel, nets := clitest.Machine()
	tool.Stdin = strings.NewReader("add siw1 type siw netdev bare --keep-netdev\ndel siw1\nadd rxe1 type rxe netdev bare\nadd siw2 type siw netdev lo\n")
	got := runLine(tool, "-j -b -", nets)
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
		tool, kernel, nets := clitest.Machine()
		if diff := cmp.Diff(clitest.Result{Err: want}, runLine(tool, line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		if len(kernel.Devices) != 2 {
			t.Errorf("%s: no link was added", line)
		}
	}
}

func TestAddAndDelete(t *testing.T) {
	tool, kernel, nets := clitest.Machine()
	for _, line := range []string{
		"add siw1 type siw netdev vlan5", "del siw1",
		"link add siw1 type siw netdev vlan5", "link delete siw1",
		"a siw1 t siw n vlan5", "l de siw1",
	} {
		before := len(kernel.Devices)
		if diff := cmp.Diff(clitest.Result{}, runLine(tool, line, nets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		if len(kernel.Devices) == before {
			t.Errorf("%s changed nothing", line)
		}
	}
}

// TestErrors checks the text of every error.
func TestErrors(t *testing.T) {
	const permission = "needs CAP_NET_ADMIN in the initial user namespace: operation not permitted: run as root, or setcap cap_net_admin+ep\n"
	for _, test := range []struct {
		line string
		fail syscall.Errno // of the kernel's NEWLINK and DELLINK
		code int
		want string
	}{
		{"add siw1 type siw netdev vlan5", syscall.EPERM, 1, "rdmalink: add link siw1 type siw netdev vlan5: " + permission},
		{"del siw0", syscall.EPERM, 1, "rdmalink: delete link of siw0: " + permission},
		{"add siw1 type siw netdev eth7", 0, 1, "rdmalink: add siw1: no network device \"eth7\" in this network namespace (available: lo, dummy0, bare, vlan5)\n"},
		{"add siw1 type siw netdev vlan5", syscall.ENODEV, 1, "rdmalink: add link siw1 type siw netdev vlan5: no such device: there is no network device vlan5 in this network namespace\n"},
		{"add siw0 type siw netdev vlan5", 0, 1, "rdmalink: add link siw0 type siw netdev vlan5: too many open files in system: the name siw0 is taken: choose another, or rdmalink del siw0\n"},
		{"add siw1 type siw netdev dummy0", 0, 1, "rdmalink: add link siw1 type siw netdev dummy0: file exists: the name siw1 is taken, or dummy0 already has a link of type siw, and can have only one; on it is siw0\n"},
		{"add foo0 type foo netdev dummy0", 0, 1, "rdmalink: add link foo0 type foo netdev dummy0: invalid argument: the kernel has no link type \"foo\" and found no module rdma-link-foo for it, or the driver does not support dummy0. The types are siw and rxe\n"},
		{"add siw1 type siw netdev vlan5", syscall.EINVAL, 1, "rdmalink: add link siw1 type siw netdev vlan5: invalid argument: the kernel has no link type \"siw\" and found no module rdma-link-siw for it, or the driver does not support vlan5. Try: modprobe siw. Some kernels, Debian's among them, are built without it (CONFIG_RDMA_SIW)\n"},
		{"add rxe1 type rxe netdev dummy0", syscall.EINVAL, 1, "rdmalink: add link rxe1 type rxe netdev dummy0: invalid argument: the kernel has no link type \"rxe\" and found no module rdma-link-rxe for it, or the driver does not support dummy0. Try: modprobe rdma_rxe. Cloud kernels are often built without it (CONFIG_RDMA_RXE)\n"},
		{"add rxe1 type rxe netdev vlan5", syscall.EPERM, 1, "rdmalink: add link rxe1 type rxe netdev vlan5: " + strings.TrimSuffix(permission, "\n") + "; rxe also refuses VLANs so: add the link on the device below\n"},
		{"add rxe1 type rxe netdev dummy0", syscall.ENOENT, 1, "rdmalink: add link rxe1 type rxe netdev dummy0: no such file or directory: rxe needs the kernel's crc32: modprobe crc32_generic\n"},
		{"add siw1 type siw netdev vlan5", syscall.EPROTONOSUPPORT, 1, "rdmalink: add link siw1 type siw netdev vlan5: no NETLINK_RDMA here: protocol not supported: on Linux: modprobe ib_core\n"},
		{"add siw%d type siw netdev vlan5", 0, 1, "rdmalink: add link siw%d type siw netdev vlan5: invalid name: the name contains a percent sign, a slash or a NUL (invalid argument)\n"},
		{"del siw7", 0, 1, "rdmalink: delete siw7: find RDMA device \"siw7\": no such RDMA device: there are siw0\n"},
		{"del siw0", syscall.EINVAL, 1, "rdmalink: delete link of siw0: invalid argument: it belongs to hardware, or went away: only siw and rxe links can be deleted\n"},
		{"show siw7", 0, 1, "rdmalink: find RDMA device \"siw7\": no such RDMA device: there are siw0\n"},
		{"show siw0/2", 0, 1, "rdmalink: siw0 has no port 2, it has 1\n"},
	} {
		tool, kernel, nets := clitest.Machine()
		if test.fail != 0 {
			kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_NEWLINK: test.fail, abi.RDMA_NLDEV_CMD_DELLINK: test.fail}
		}
		want := clitest.Result{Code: test.code, Err: test.want}
		if test.fail == syscall.EINVAL && strings.HasPrefix(test.line, "add rxe1") {
			kernel.Types = []string{"siw"}
		}
		if diff := cmp.Diff(want, runLine(tool, test.line, nets)); diff != "" {
			t.Errorf("%s, errno %d (-want +got):\n%s", test.line, test.fail, diff)
		}
	}
}
