// Package addlink adds software RDMA devices on network devices. It first sets what a network device lacks for
// connections by rdma_cm.
package addlink

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/goverbs/goverbs/internal/rtnetlink"
	"github.com/vishvananda/netlink"
)

// Netdev holds the properties of a network device that matter for an RDMA link on it.
type Netdev struct {
	Index    uint32
	Name     string
	Loopback bool
	Up       bool
	Carrier  bool             // the cable has a partner at the other end
	MAC      net.HardwareAddr // empty too if it is all zero
	Addrs    []netip.Addr
}

// Usable reports whether rdma_cm can find the device by one of its addresses. On lo that must be
// an IPv4 address, from which 127.0.0.1 can be dialled.
func (d Netdev) Usable() bool {
	for _, a := range d.Addrs {
		if !a.IsLoopback() && (!d.Loopback || a.Is4()) {
			return true
		}
	}
	return false
}

// Dialable returns an address by which rdma_cm finds the device on this host, without a zone.
func (d Netdev) Dialable() (addr netip.Addr, ok bool) {
	for _, a := range d.Addrs {
		if !a.IsLoopback() && !a.IsLinkLocalUnicast() && (!d.Loopback || a.Is4()) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// Netdevs is the network side of the kernel.
type Netdevs interface {
	List() ([]Netdev, error)
	SetMAC(name string, mac net.HardwareAddr) error
	SetUp(name string) error
	SetDown(name string) error
	AddAddr(name string, addr netip.Prefix) error
	DelAddr(name string, addr netip.Prefix) error
}

// Kernel asks the running kernel, by netlink, about the network namespace of the process.
var Kernel Netdevs = kernelNetdevs{}

type kernelNetdevs struct{}

func (kernelNetdevs) List() ([]Netdev, error) { return rtnetlink.UntilWhole(listNetdevs) }

func listNetdevs() ([]Netdev, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	all := make([]Netdev, len(links))
	for i, l := range links {
		attrs := l.Attrs()
		all[i] = Netdev{
			Index:    uint32(attrs.Index),
			Name:     attrs.Name,
			Loopback: attrs.Flags&net.FlagLoopback != 0,
			Up:       attrs.Flags&net.FlagUp != 0,
			Carrier:  attrs.OperState == netlink.OperUp || attrs.OperState == netlink.OperUnknown,
			MAC:      attrs.HardwareAddr,
		}
		addrs, err := netlink.AddrList(l, 0)
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if ip, ok := netip.AddrFromSlice(a.IP); ok {
				all[i].Addrs = append(all[i].Addrs, ip.Unmap())
			}
		}
	}
	return all, nil
}

func (kernelNetdevs) SetMAC(name string, mac net.HardwareAddr) error {
	return netlink.LinkSetHardwareAddr(linkNamed(name), mac)
}

func (kernelNetdevs) SetUp(name string) error { return netlink.LinkSetUp(linkNamed(name)) }

func (kernelNetdevs) SetDown(name string) error { return netlink.LinkSetDown(linkNamed(name)) }

func (kernelNetdevs) AddAddr(name string, addr netip.Prefix) error {
	return netlink.AddrAdd(linkNamed(name), ipNet(addr))
}

func (kernelNetdevs) DelAddr(name string, addr netip.Prefix) error {
	return netlink.AddrDel(linkNamed(name), ipNet(addr))
}

func ipNet(addr netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{
		IP:   addr.Addr().AsSlice(),
		Mask: net.CIDRMask(addr.Bits(), addr.Addr().BitLen()),
	}}
}

// linkNamed returns a link with a name only: the library looks up the index.
func linkNamed(name string) netlink.Link {
	return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name}}
}

// SpareAddr is the address for a network device that has none and needs one for
// nothing but RDMA: the first of TEST-NET-1 (RFC 5737), which no network routes,
// so that it hides no host.
var SpareAddr = netip.MustParsePrefix("192.0.2.1/32")

// AddrCommand returns the command that adds an address to the device. Except on lo, only the
// user knows the address.
func (d Netdev) AddrCommand() string {
	if d.Loopback {
		return fmt.Sprintf("ip addr add %s dev %s", SpareAddr, d.Name)
	}
	return "ip addr add ADDRESS/LENGTH dev " + d.Name
}
