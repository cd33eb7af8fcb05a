package rdmatest

import "net/netip"

// putSockaddr writes a struct sockaddr_in or sockaddr_in6.
func putSockaddr(to *[128]uint8, a netip.AddrPort) uint16 {
	to[2], to[3] = byte(a.Port()>>8), byte(a.Port())
	if a.Addr().Is4() {
		to[0] = 2
		copy(to[4:], a.Addr().AsSlice())
		return 16
	}
	to[0] = 10
	copy(to[8:], a.Addr().AsSlice())
	return 28
}

func parseSockaddr(b [128]uint8) netip.AddrPort {
	port := uint16(b[2])<<8 | uint16(b[3])
	if b[0] == 2 {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port)
}
