package main

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// netdev is what matters of a network device for an RDMA link on it.
type netdev struct {
	index    uint32
	name     string
	loopback bool
	vlan     bool
	up       bool
	carrier  bool // there is somebody at the other end of the cable
	hasMAC   bool // false too for one whose address is all zero
	addrs    []netip.Addr
}

// usable tells whether rdma_cm can find the device by one of its addresses. On
// lo that is an IPv4 address, from which 127.0.0.1 can be dialled.
func (d netdev) usable() bool {
	for _, a := range d.addrs {
		if !a.IsLoopback() && (!d.loopback || a.Is4()) {
			return true
		}
	}
	return false
}

// netdevs is the network side of the kernel.
type netdevs interface {
	list() ([]netdev, error)
	setMAC(name string, mac net.HardwareAddr) error
	setUp(name string) error
	setDown(name string) error
	addAddr(name string, addr netip.Prefix) error
	delAddr(name string, addr netip.Prefix) error
}

// kernelNetdevs asks the running kernel, by netlink, about the network
// namespace of the process.
type kernelNetdevs struct{}

func (kernelNetdevs) list() ([]netdev, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	all := make([]netdev, len(links))
	for i, l := range links {
		attrs := l.Attrs()
		all[i] = netdev{
			index:    uint32(attrs.Index),
			name:     attrs.Name,
			loopback: attrs.Flags&net.FlagLoopback != 0,
			vlan:     l.Type() == "vlan",
			up:       attrs.Flags&net.FlagUp != 0,
			carrier:  attrs.OperState == netlink.OperUp || attrs.OperState == netlink.OperUnknown,
			hasMAC:   len(attrs.HardwareAddr) > 0,
		}
		addrs, err := netlink.AddrList(l, 0)
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if ip, ok := netip.AddrFromSlice(a.IP); ok {
				all[i].addrs = append(all[i].addrs, ip.Unmap())
			}
		}
	}
	return all, nil
}

func (kernelNetdevs) setMAC(name string, mac net.HardwareAddr) error {
	return netlink.LinkSetHardwareAddr(linkNamed(name), mac)
}

func (kernelNetdevs) setUp(name string) error { return netlink.LinkSetUp(linkNamed(name)) }

func (kernelNetdevs) setDown(name string) error { return netlink.LinkSetDown(linkNamed(name)) }

func (kernelNetdevs) addAddr(name string, addr netip.Prefix) error {
	return netlink.AddrAdd(linkNamed(name), ipNet(addr))
}

func (kernelNetdevs) delAddr(name string, addr netip.Prefix) error {
	return netlink.AddrDel(linkNamed(name), ipNet(addr))
}

func ipNet(addr netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{
		IP:   addr.Addr().AsSlice(),
		Mask: net.CIDRMask(addr.Bits(), addr.Addr().BitLen()),
	}}
}

// linkNamed lets the library look up the index itself.
func linkNamed(name string) netlink.Link {
	return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: name}}
}
