package verbs

import (
	"fmt"
	"net/netip"
)

// GID is the global identifier of a port. It has the form of an IPv6 address and prints as one.
//
// C: union ibv_gid
type GID [16]byte

func (g GID) String() string { return netip.AddrFrom16(g).String() }

// Addr returns the IP address of a RoCE GID, which may be an IPv4 address. A GID of InfiniBand only
// has the form of an IPv6 address.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsMulticast reports whether the GID is that of a multicast group: ff00::/8, or the mapped form of
// an IPv4 group.
func (g GID) IsMulticast() bool { return g.Addr().IsMulticast() }

// GIDFromAddr returns the RoCE GID of an IP address. For an IPv4 address it is the IPv6-mapped
// form, ::ffff:a.b.c.d. For the zero Addr it is the zero GID.
func GIDFromAddr(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{}
	}
	return a.As16()
}

// GIDEntry is a used slot of a GID table.
//
// C: struct ibv_gid_entry
type GIDEntry struct {
	GID         GID
	Type        GIDType
	Port        int    // from 1
	Index       uint32 // in the port's table
	NetdevIndex uint32 // index of its network device; 0 means none
}

// GIDType is the protocol of the packets sent from a GID.
type GIDType uint32

// The types of GIDs.
const (
	GIDTypeIB     GIDType = 0
	GIDTypeRoCEv1 GIDType = 1
	GIDTypeRoCEv2 GIDType = 2
)

func (t GIDType) String() string {
	switch t {
	case GIDTypeIB:
		return "IB"
	case GIDTypeRoCEv1:
		return "RoCE v1"
	case GIDTypeRoCEv2:
		return "RoCE v2"
	}
	return fmt.Sprintf("GIDType(%d)", uint32(t))
}

// GUID is the 64-bit EUI of a node or a system image.
//
// The kernel sends it as a number in native byte order. So it is a number here, and not the bytes
// of a packet or a GID.
type GUID uint64

// String returns the form of sysfs and iproute2: 0c76:80ff:febf:e77b.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}
