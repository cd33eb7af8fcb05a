package host

import (
	"fmt"
	"net/netip"
)

// SpareAddr is the address for a network device that has none and needs one for
// nothing but RDMA: the first of TEST-NET-1 (RFC 5737), which no network routes,
// so that it hides no host.
var SpareAddr = netip.MustParsePrefix("192.0.2.1/32")

// AddrCommand is the command that gives the device an address; which one, only the
// user knows, except on lo.
func (d Netdev) AddrCommand() string {
	if d.Loopback {
		return fmt.Sprintf("ip addr add %s dev %s", SpareAddr, d.Name)
	}
	return "ip addr add ADDRESS/LENGTH dev " + d.Name
}
