package uverbs

import (
	"net/netip"

	"github.com/goverbs/goverbs/uverbs/driver"
)

// GID is a port's global identifier, an IPv6 address by form. It prints as one.
//
// C: union ibv_gid
type GID = driver.GID

// GIDEntry is a used slot of a GID table.
//
// C: struct ibv_gid_entry
type GIDEntry = driver.GIDEntry

// GIDType tells what kind of packets go out from a GID.
//
// C: enum ibv_gid_type
type GIDType = driver.GIDType

// The kinds of GID.
const (
	GIDTypeIB     GIDType = driver.GIDTypeIB
	GIDTypeRoCEv1 GIDType = driver.GIDTypeRoCEv1
	GIDTypeRoCEv2 GIDType = driver.GIDTypeRoCEv2
)

// GIDFromAddr returns the GID that stands for an IP address on RoCE: of an IPv4
// address its IPv6-mapped form, ::ffff:a.b.c.d. The zero Addr is the zero GID.
func GIDFromAddr(a netip.Addr) GID { return driver.GIDFromAddr(a) }
