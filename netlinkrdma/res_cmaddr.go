package netlinkrdma

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// CMAddr is an address of a CM id.
type CMAddr struct {
	Family uint16 // AF_INET, AF_INET6 or AF_IB, as linux numbers them; 0: there is no address
	// AddrPort is the address. Of AF_IB it is the GID, and the port within the
	// service id; of a family that is not known it is not valid.
	AddrPort netip.AddrPort
	Raw      []byte // the sockaddr of a family that is not known
}

const sockaddrStorage = 128 // bytes the kernel sends

// The families, which have other numbers elsewhere than on linux.
const (
	afINET  = 2
	afINET6 = 10
	afIB    = 27
)

// String gives iproute2's form, which puts an IPv6 address in no brackets.
func (a CMAddr) String() string {
	switch {
	case a.AddrPort.IsValid():
		return fmt.Sprintf("%s:%d", a.AddrPort.Addr(), a.AddrPort.Port())
	case a.Family == 0:
		return ""
	}
	return fmt.Sprintf("Family(%d)", a.Family)
}

// parseCMAddr reads the sockaddr_storage the kernel sends. Ports and addresses
// in it are in network byte order.
func parseCMAddr(a *attributes) CMAddr {
	if len(a.value) < 2 {
		a.sized(sockaddrStorage)
		return CMAddr{}
	}
	v := a.value
	addr := CMAddr{Family: binary.NativeEndian.Uint16(v)}
	switch {
	case addr.Family == afINET && len(v) >= 8:
		addr.AddrPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte(v[4:])), binary.BigEndian.Uint16(v[2:]))
	case addr.Family == afINET6 && len(v) >= 24:
		addr.AddrPort = netip.AddrPortFrom(netip.AddrFrom16([16]byte(v[8:])), binary.BigEndian.Uint16(v[2:]))
	case addr.Family == afIB && len(v) >= 40:
		addr.AddrPort = netip.AddrPortFrom(netip.AddrFrom16([16]byte(v[8:])), binary.BigEndian.Uint16(v[30:]))
	case addr.Family == afINET || addr.Family == afINET6 || addr.Family == afIB:
		a.sized(sockaddrStorage)
	default:
		addr.Raw = bytes.Clone(v)
	}
	return addr
}
