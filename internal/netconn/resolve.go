package netconn

import (
	"context"
	"net"
	"net/netip"
	"strings"
)

// resolve returns the addresses of host and port that the network allows. The network is protocol or "tcp". A "4" or
// "6" at its end restricts the address family. If resolver is nil, net.DefaultResolver is used.
func resolve(ctx context.Context, resolver *net.Resolver, protocol, network, address string) ([]netip.AddrPort, error) {
	family, ok := strings.CutPrefix(network, protocol)
	if !ok {
		family, ok = strings.CutPrefix(network, "tcp")
	}
	if !ok || family != "" && family != "4" && family != "6" {
		return nil, net.UnknownNetworkError(network)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	port, err := resolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := resolver.LookupNetIP(ctx, "ip"+family, host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return addrs, nil
}
