package rdmacm

import (
	"context"
	"net"
	"net/netip"
)

// lookup understands what package net does.
func lookup(ctx context.Context, resolver *net.Resolver, address string) ([]netip.AddrPort, error) {
	if addr, err := netip.ParseAddrPort(address); err == nil {
		return []netip.AddrPort{addr}, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := resolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return addrs, nil
}
