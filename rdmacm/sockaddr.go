package rdmacm

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/netif"
	"github.com/goverbs/goverbs/verbs"
)

// Linux's numbers, which are used on all platforms.
const (
	afInet  = 2
	afInet6 = 10
)

// putSockaddr writes addr as struct sockaddr_in or sockaddr_in6 and returns its size. For an invalid addr
// it writes nothing and returns 0.
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

// sockaddr reads an address. For an unknown family it returns an invalid one.
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
	return netif.ZoneIndex(ip)
}

func zone(scope uint32) string {
	if ifi, err := net.InterfaceByIndex(int(scope)); err == nil {
		return ifi.Name
	}
	return strconv.FormatUint(uint64(scope), 10)
}

// IBAddr is an address of family AF_IB: the GID of a port, and a service. Only an InfiniBand link layer has
// such addresses. RoCE and iWARP have IP addresses.
//
// C: struct sockaddr_ib
type IBAddr struct {
	PKey     uint16 // 0xffff: any
	FlowInfo uint32
	GID      verbs.GID
	// ServiceID holds the port space and the port, as [IBServiceID] returns it, or a number of
	// PortSpaceIB that programs agree upon. ServiceMask selects the bits that are compared.
	ServiceID, ServiceMask uint64
	Scope                  uint64
}

// IBServiceID returns the service ID of a port in a port space.
func IBServiceID(ps verbs.PortSpace, port uint16) uint64 { return uint64(ps)<<16 | uint64(port) }

func (a IBAddr) String() string { return fmt.Sprintf("%v service %#x", a.GID, a.ServiceID) }

const (
	afIB       = 27
	sizeOfIB   = 48
	anyBinding = "no InfiniBand port here has that GID; RoCE and iWARP take IP addresses"
)

// put writes a as struct sockaddr_ib and returns its size.
func (a *IBAddr) put(b *[128]byte) uint16 {
	w := binary.NativeEndian.AppendUint16(b[:0], afIB)
	w = binary.BigEndian.AppendUint16(w, a.PKey)
	w = binary.BigEndian.AppendUint32(w, a.FlowInfo)
	w = append(w, a.GID[:]...)
	w = binary.BigEndian.AppendUint64(w, a.ServiceID)
	w = binary.BigEndian.AppendUint64(w, a.ServiceMask)
	binary.NativeEndian.AppendUint64(w, a.Scope)
	return sizeOfIB
}

var ibHints = map[syscall.Errno]string{syscall.ENODEV: anyBinding, syscall.EADDRNOTAVAIL: anyBinding, syscall.EADDRINUSE: "another ID listens for that service"}

// BindIB sets the ID's local address to an InfiniBand address.
//
// C: rdma_bind_addr
func (id *ID) BindIB(addr *IBAddr) error {
	err := command(id, abi.RDMA_USER_CM_CMD_BIND, func(b *abi.RdmaUcmBind) {
		b.Id, b.AddrSize = id.handle, addr.put(&b.Addr)
	})
	return hinted("bind", addr, err, ibHints)
}

// ResolveIB is ResolveAddr for InfiniBand addresses. src may be nil.
//
// C: rdma_resolve_addr
func (id *ID) ResolveIB(src, dst *IBAddr, timeout time.Duration) error {
	err := command(id, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, func(b *abi.RdmaUcmResolveAddr) {
		b.Id, b.TimeoutMs = id.handle, milliseconds(timeout)
		if src != nil {
			b.SrcSize = src.put(&b.SrcAddr)
		}
		b.DstSize = dst.put(&b.DstAddr)
	})
	return hinted("resolve address", dst, err, ibHints)
}
