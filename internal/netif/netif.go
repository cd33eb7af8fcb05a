// Package netif relates GIDs, and zones of IPv6 addresses, to the network interfaces of this network namespace. The
// kernel reports only the index of a GID's interface. That index may belong to another namespace, in which case it
// names a different interface here.
package netif

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/goverbs/goverbs/verbs"
)

// Interface is an interface of this network namespace.
type Interface struct {
	Name  string
	MAC   net.HardwareAddr
	Addrs []netip.Addr // without zones
}

// ByIndex returns the interface with an index.
func ByIndex(index uint32) (i Interface, err error) {
	ifi, err := net.InterfaceByIndex(int(index))
	if err != nil {
		return i, err
	}
	addrs, err := ifi.Addrs()
	i.Name, i.MAC = ifi.Name, ifi.HardwareAddr
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			i.Addrs = append(i.Addrs, prefix.Addr().Unmap())
		}
	}
	return i, err
}

// Has reports whether a GID of RoCE is derived from the interface: from one of its addresses or, as the default GID is,
// from its MAC address.
func (i *Interface) Has(g verbs.GID) bool {
	return slices.Contains(i.Addrs, g.Addr()) || len(i.MAC) == 6 && g == defaultGID(i.MAC)
}

// defaultGID returns the link-local address with the modified EUI-64 of a MAC address (RFC 4291, appendix A).
func defaultGID(mac net.HardwareAddr) verbs.GID {
	return verbs.GID{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]}
}

// ZoneIndex returns the index of the interface that is the zone of an IPv6 address, or 0 if it has none. A zone is the
// name of an interface or a number.
func ZoneIndex(ip netip.Addr) (uint32, error) {
	if ip.Zone() == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(ip.Zone(), 10, 32); err == nil {
		return uint32(n), nil
	}
	ifi, err := net.InterfaceByName(ip.Zone())
	if err != nil {
		return 0, fmt.Errorf("interface of %v: %w", ip, err)
	}
	return uint32(ifi.Index), nil
}
