package cm

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// destination is where the server listens.
func (s *session) destination(ctx context.Context) (netip.AddrPort, error) {
	ip, err := s.resolve(ctx, "-s", s.server)
	return netip.AddrPortFrom(ip, uint16(s.port)), err
}

// source is the own address of -b, or none.
func (s *session) source(ctx context.Context) (netip.Addr, error) {
	if s.bind == "" {
		return netip.Addr{}, nil
	}
	return s.resolve(ctx, "-b", s.bind)
}

// sourcePort is -b as Dial takes it.
func (s *session) sourcePort(ctx context.Context) (netip.AddrPort, error) {
	ip, err := s.source(ctx)
	if !ip.IsValid() {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ip, 0), err
}

// listenAddress is where Listen listens; no host means both address families.
func (s *session) listenAddress() string { return net.JoinHostPort(s.bind, strconv.Itoa(s.port)) }

// listenAddrs are those of -b, or of both families.
func (s *session) listenAddrs(ctx context.Context) ([]netip.AddrPort, error) {
	ip, err := s.source(ctx)
	if err != nil {
		return nil, err
	}
	ips := []netip.Addr{ip}
	if !ip.IsValid() {
		ips = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip, uint16(s.port))
	}
	return addrs, nil
}

// resolve finds the first address of a name.
func (s *session) resolve(ctx context.Context, option, name string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(name)
	if err == nil {
		return ip.Unmap(), nil
	}
	if s.numeric {
		return netip.Addr{}, cli.UsageError{Text: fmt.Sprintf("%s %s is no IP address, as -f ip wants", option, name)}
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s: %w", option, err)
	}
	return ips[0].Unmap(), nil
}
