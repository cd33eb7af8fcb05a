package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
)

// fixNet is TEST-NET-1 (RFC 5737). No network routes it, so an address from it
// hides no host that a program may want to reach.
var fixNet = netip.MustParsePrefix("192.0.2.0/24")

// fixAddr is the first address of fixNet, which add gives a network device that
// has none.
var fixAddr = netip.MustParsePrefix("192.0.2.1/32")

// fixMAC is the hardware address that the refusal names. It is locally
// administered and never leaves lo. add itself sets a random one: the GID of the
// link is made from it, and kernels before 6.6 find a link by its GID alone, so
// that two namespaces with the same one could get each other's link.
const fixMAC = "02:00:00:00:00:01"

// lacksMAC tells whether a siw link on dev could never connect: siw makes the
// link's GID from the hardware address when the link is added. Of the network
// devices that siw takes, only lo may have an address of zeros.
func lacksMAC(typ string, dev netdev) bool {
	return typ == "siw" && dev.loopback && !dev.hasMAC
}

// refuseUnfit refuses a siw link that could never connect, even though iproute2
// adds it: every rdma_resolve_addr through it would fail.
func refuseUnfit(typ string, dev netdev) error {
	if !lacksMAC(typ, dev) {
		return nil
	}
	remedy := fmt.Sprintf("  ip link set %s address %s", dev.name, fixMAC)
	if !dev.usable() {
		remedy += "\n  " + addrCommand(dev)
	}
	return fmt.Errorf(`%s has no hardware address, from which siw makes the GID of the link:
it would come up, but every connection through it would fail. Run first
%s
or let rdmalink do that: leave out --keep-netdev`, dev.name, remedy)
}

// missing lists what has to change on dev for a link that connects. The
// hardware address comes last, because it can't be taken back.
func (t *tool) missing(typ string, dev netdev) ([]change, error) {
	if typ != "siw" && typ != "rxe" {
		return nil, nil
	}
	var all []change
	// rdma_cm never connects through rxe on lo, whatever the address.
	if !dev.usable() && !(typ == "rxe" && dev.loopback) {
		addr, err := t.freeAddr()
		if err != nil {
			return nil, err
		}
		all = append(all, t.addAddr(dev, addr))
	}
	if !dev.up {
		all = append(all, t.setUp(dev))
	}
	if lacksMAC(typ, dev) {
		mac, err := randomMAC()
		if err != nil {
			return nil, err
		}
		all = append(all, t.setMAC(dev, mac))
	}
	return all, nil
}

// freeAddr is the first address of fixNet that no network device has: rdma_cm
// finds only one of two devices with the same address.
func (t *tool) freeAddr() (netip.Prefix, error) {
	devs, err := t.net.list()
	if err != nil {
		return netip.Prefix{}, err
	}
	taken := make(map[netip.Addr]bool)
	for _, d := range devs {
		for _, a := range d.addrs {
			taken[a] = true
		}
	}
	for a := fixAddr.Addr(); fixNet.Contains(a); a = a.Next() {
		if !taken[a] {
			return netip.PrefixFrom(a, a.BitLen()), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("no address of %s is free", fixNet)
}

// randomMAC makes a locally administered unicast address.
func randomMAC() (net.HardwareAddr, error) {
	mac := make(net.HardwareAddr, 6)
	_, err := rand.Read(mac)
	mac[0] = 0x02
	return mac, err
}

// addrCommand is the command that gives dev an address; which one, only the
// user knows, except on lo.
func addrCommand(dev netdev) string {
	if dev.loopback {
		return fmt.Sprintf("ip addr add %s dev %s", fixAddr, dev.name)
	}
	return "ip addr add ADDRESS/LENGTH dev " + dev.name
}
