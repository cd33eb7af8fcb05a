package uverbs

import "net/netip"

// GIDFromAddr returns the GID that stands for an IP address on RoCE: of an IPv4
// address its IPv6-mapped form, ::ffff:a.b.c.d. The zero Addr is the zero GID.
func GIDFromAddr(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{}
	}
	return a.As16()
}

// Addr returns the IP address that a RoCE GID stands for, IPv4 as such. A GID of
// InfiniBand is an IPv6 address only by form.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsMulticast tells whether the GID is a group's: ff00::/8, or the mapped form of
// an IPv4 group.
func (g GID) IsMulticast() bool { return g.Addr().IsMulticast() }
