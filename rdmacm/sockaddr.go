package rdmacm

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/goverbs/goverbs/internal/abi"
)

// The kernel's own numbers, whatever the platform this compiles on.
const (
	afInet  = 2
	afInet6 = 10
)

// putSockaddr writes addr as struct sockaddr_in or sockaddr_in6 and returns
// its size. An invalid addr is none at all: size 0.
func putSockaddr(b *[128]byte, addr netip.AddrPort) (uint16, error) {
	ip := addr.Addr().Unmap()
	switch {
	case !ip.IsValid():
		return 0, nil
	case ip.Is4():
		sa := abi.SockaddrIn{SinFamily: afInet, SinPort: networkOrder(addr.Port())}
		sa.SinAddr.SAddr = binary.NativeEndian.Uint32(ip.AsSlice())
		return put(b, &sa), nil
	}
	scope, err := scopeID(ip)
	if err != nil {
		return 0, err
	}
	sa := abi.SockaddrIn6{Sin6Family: afInet6, Sin6Port: networkOrder(addr.Port()), Sin6ScopeId: scope}
	sa.Sin6Addr.In6U = ip.As16()
	return put(b, &sa), nil
}

// sockaddr is the way back. An unknown family gives an invalid address.
func sockaddr(b *[128]byte) netip.AddrPort {
	switch sa := view[abi.SockaddrIn6](b[:]); sa.Sin6Family {
	case afInet:
		sa := view[abi.SockaddrIn](b[:])
		var ip [4]byte
		binary.NativeEndian.PutUint32(ip[:], sa.SinAddr.SAddr)
		return netip.AddrPortFrom(netip.AddrFrom4(ip), networkOrder(sa.SinPort))
	case afInet6:
		ip := netip.AddrFrom16(sa.Sin6Addr.In6U).Unmap()
		if sa.Sin6ScopeId != 0 {
			ip = ip.WithZone(zone(sa.Sin6ScopeId))
		}
		return netip.AddrPortFrom(ip, networkOrder(sa.Sin6Port))
	}
	return netip.AddrPort{}
}

// networkOrder swaps a port number into or out of big endian.
func networkOrder(port uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port))
}

func scopeID(ip netip.Addr) (uint32, error) {
	if ip.Zone() == "" {
		if ip.IsLinkLocalUnicast() {
			return 0, fmt.Errorf("link-local address %v needs its interface, as in %v%%eth0", ip, ip)
		}
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

func zone(scope uint32) string {
	if ifi, err := net.InterfaceByIndex(int(scope)); err == nil {
		return ifi.Name
	}
	return strconv.FormatUint(uint64(scope), 10)
}
