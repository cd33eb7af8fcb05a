package rdmacm

import (
	"net"
	"net/netip"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// loopbackSource finds an address to dial the loopback address dst from: one
// of an interface that has an RDMA link and the loopback flag, so that the
// device is known before the kernel's own loopback path, which asks siw for a
// P_Key that it hasn't got. None is no error: the kernel then decides.
func loopbackSource(dst netip.Addr) netip.AddrPort {
	for _, ifi := range rdmaInterfaces() {
		if ifi.Flags&net.FlagLoopback == 0 {
			continue
		}
		addrs, err := ifi.Addrs()
		if err != nil {
			continue
		}
		if ip := pickSource(dst, addrs); ip.IsValid() {
			return netip.AddrPortFrom(ip, 0)
		}
	}
	return netip.AddrPort{}
}

// rdmaInterfaces are the network interfaces with an RDMA link on them.
func rdmaInterfaces() []*net.Interface {
	var nl netlinkrdma.Client
	devs, err := nl.Devices()
	if err != nil {
		return nil
	}
	var found []*net.Interface
	for _, dev := range devs {
		ports, err := nl.Ports(dev.Index)
		if err != nil {
			continue
		}
		for _, port := range ports {
			if ifi, err := net.InterfaceByIndex(int(port.NetdevIndex)); err == nil {
				found = append(found, ifi)
			}
		}
	}
	return found
}

func pickSource(dst netip.Addr, addrs []net.Addr) netip.Addr {
	for _, addr := range addrs {
		prefix, ok := addr.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(prefix.IP)
		if ip = ip.Unmap(); ok && ip.Is4() == dst.Unmap().Is4() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			return ip
		}
	}
	return netip.Addr{}
}
