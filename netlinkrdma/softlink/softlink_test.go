package softlink

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// netdevs is a network side with lo, and logs the changes.
type netdevs struct {
	lo  addlink.Netdev
	log []string
}

func (n *netdevs) List() ([]addlink.Netdev, error) { return []addlink.Netdev{n.lo}, nil }
func (n *netdevs) SetMAC(_ string, mac net.HardwareAddr) error {
	n.log, n.lo.MAC = append(n.log, "mac"), mac
	return nil
}
func (n *netdevs) SetUp(string) error   { n.log, n.lo.Up = append(n.log, "up"), true; return nil }
func (n *netdevs) SetDown(string) error { n.log, n.lo.Up = append(n.log, "down"), false; return nil }
func (n *netdevs) AddAddr(_ string, addr netip.Prefix) error {
	n.log, n.lo.Addrs = append(n.log, "addr "+addr.String()), append(n.lo.Addrs, addr.Addr())
	return nil
}
func (n *netdevs) DelAddr(_ string, addr netip.Prefix) error {
	n.log, n.lo.Addrs = append(n.log, "addr del"), nil
	return nil
}

func machine() (*netlinkrdma.Client, *nltest.Kernel, *netdevs) {
	kernel := &nltest.Kernel{Netdevs: []string{"lo", "eth0"}, Types: []string{"siw", "rxe"}}
	return &netlinkrdma.Client{Kernel: kernel}, kernel, &netdevs{lo: addlink.Netdev{Index: 1, Name: "lo", Loopback: true}}
}

// A link on a bare lo is made ready, once. What is lost later is repaired, without another link.
func TestEnsureLink(t *testing.T) {
	c, kernel, nets := machine()
	changes, err := ensure(c, nets, "siw0", "siw", "lo")
	if err != nil || len(changes) != 3 || !strings.HasPrefix(changes[0], "lo: address 192.0.2.1/32 added; to undo: ip addr del") {
		t.Fatalf("%q, %v", changes, err)
	}
	if want := []string{"addr 192.0.2.1/32", "up", "mac"}; !slices.Equal(nets.log, want) || len(kernel.Devices) != 1 {
		t.Errorf("%q, %v", nets.log, kernel.Devices)
	}
	first := kernel.Devices[0].Index
	nets.log = nil
	if changes, err := ensure(c, nets, "siw0", "siw", "lo"); err != nil || changes != nil || nets.log != nil {
		t.Errorf("again: %q, %v, %q", changes, err, nets.log)
	}
	nets.lo.Up, nets.lo.Addrs = false, nil
	if changes, err := ensure(c, nets, "siw0", "siw", "lo"); err != nil || len(changes) != 2 || !nets.lo.Up || len(nets.lo.Addrs) != 1 {
		t.Errorf("repair: %q, %v", changes, err)
	}
	if len(kernel.Devices) != 1 || kernel.Devices[0].Index != first {
		t.Errorf("the link was replaced: %v", kernel.Devices)
	}
}

// A siw link that was added while lo had no hardware address is replaced.
func TestReplacesLinkWithoutGID(t *testing.T) {
	c, kernel, nets := machine()
	if err := c.AddLink("siw0", "siw", "lo"); err != nil {
		t.Fatal(err)
	}
	first := kernel.Devices[0].Index
	if changes, err := ensure(c, nets, "siw0", "siw", "lo"); err != nil || len(changes) != 3 {
		t.Errorf("%q, %v", changes, err)
	}
	if len(kernel.Devices) != 1 || kernel.Devices[0].Index == first || len(nets.lo.MAC) != 6 {
		t.Errorf("%v, lo has %v", kernel.Devices, nets.lo.MAC)
	}
}

// Errors leave lo as it was.
func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(*netlinkrdma.Client, *nltest.Kernel)
		on   string
		want error
		text string
	}{
		"no netdev": {on: "eth7", want: syscall.ENODEV, text: "eth7"},
		"refused": {on: "lo", set: func(_ *netlinkrdma.Client, k *nltest.Kernel) {
			k.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_NEWLINK: syscall.EPERM}
		}, want: syscall.EPERM, text: "CAP_NET_ADMIN"},
		"the name is an other's": {on: "lo", set: func(c *netlinkrdma.Client, _ *nltest.Kernel) { _ = c.AddLink("siw0", "siw", "eth0") }, want: syscall.EEXIST, text: `on "eth0"`},
		"another on it":          {on: "lo", set: func(c *netlinkrdma.Client, _ *nltest.Kernel) { _ = c.AddLink("siw9", "siw", "lo") }, want: syscall.EEXIST, text: "on it is siw9"},
	} {
		t.Run(name, func(t *testing.T) {
			c, kernel, nets := machine()
			if test.set != nil {
				test.set(c, kernel)
			}
			changes, err := ensure(c, nets, "siw0", "siw", test.on)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) || changes != nil || nets.log != nil {
				t.Errorf("%q, %v, %q", changes, err, nets.log)
			}
		})
	}
}
