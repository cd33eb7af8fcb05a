package verbs

import (
	"fmt"
	"net/netip"
)

// GID is a port's global identifier, an IPv6 address by form. It prints as one.
//
// C: union ibv_gid
type GID [16]byte

func (g GID) String() string { return netip.AddrFrom16(g).String() }

// Addr returns the IP address that a RoCE GID stands for, IPv4 as such. A GID of
// InfiniBand is an IPv6 address only by form.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsMulticast tells whether the GID is a group's: ff00::/8, or the mapped form of
// an IPv4 group.
func (g GID) IsMulticast() bool { return g.Addr().IsMulticast() }

// GIDFromAddr returns the GID that stands for an IP address on RoCE: of an IPv4
// address its IPv6-mapped form, ::ffff:a.b.c.d. The zero Addr is the zero GID.
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
	Port        uint32 // from 1
	Index       uint32 // in the port's table
	NetdevIndex uint32 // network device behind it; 0 means none
}

// GIDType tells what kind of packets go out from a GID.
type GIDType uint32

// The kinds of GID.
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

// GUID is a 64-bit EUI: of a node, or of a system image.
//
// The kernel sends it as a number in native byte order, so this is the number
// and not the bytes that stand on the wire or in a GID.
type GUID uint64

// String gives the form of sysfs and iproute2: 0c76:80ff:febf:e77b.
func (g GUID) String() string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", uint16(g>>48), uint16(g>>32), uint16(g>>16), uint16(g))
}
