package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
)

// fixNet is TEST-NET-1 (RFC 5737). No network routes it, so an address from it
// hides no host that a program may want to reach.
var fixNet = netip.PrefixFrom(host.SpareAddr.Addr(), 24).Masked()

// fixMAC is the hardware address that the refusal names. It is locally
// administered and never leaves lo. add itself sets a random one: the GID of the
// link is made from it, and kernels before 6.6 find a link by its GID alone, so
// that two namespaces with the same one could get each other's link.
const fixMAC = "02:00:00:00:00:01"

// lacksMAC tells whether a siw link on dev could never connect: siw makes the
// link's GID from the hardware address when the link is added. Of the network
// devices that siw takes, only lo may have an address of zeros.
func lacksMAC(typ string, dev host.Netdev) bool {
	return typ == "siw" && dev.Loopback && !dev.HasMAC
}

// refuseUnfit refuses a siw link that could never connect, even though iproute2
// adds it: every rdma_resolve_addr through it would fail.
func refuseUnfit(typ string, dev host.Netdev) error {
	if !lacksMAC(typ, dev) {
		return nil
	}
	remedy := fmt.Sprintf("  ip link set %s address %s", dev.Name, fixMAC)
	if !dev.Usable() {
		remedy += "\n  " + dev.AddrCommand()
	}
	return fmt.Errorf(`%s has no hardware address, from which siw makes the GID of the link:
it would come up, but every connection through it would fail. Run first
%s
or let rdmalink do that: leave out --keep-netdev`, dev.Name, remedy)
}

// missing lists what has to change on dev for a link that connects. The
// hardware address comes last, because it can't be taken back.
func (t *tool) missing(typ string, dev host.Netdev) ([]change, error) {
	if typ != "siw" && typ != "rxe" {
		return nil, nil
	}
	var all []change
	// rdma_cm never connects through rxe on lo, whatever the address.
	if !dev.Usable() && !(typ == "rxe" && dev.Loopback) {
		addr, err := t.freeAddr()
		if err != nil {
			return nil, err
		}
		all = append(all, t.addAddr(dev, addr))
	}
	if !dev.Up {
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
	devs, err := t.Net.List()
	if err != nil {
		return netip.Prefix{}, err
	}
	taken := make(map[netip.Addr]bool)
	for _, d := range devs {
		for _, a := range d.Addrs {
			taken[a] = true
		}
	}
	for a := host.SpareAddr.Addr(); fixNet.Contains(a); a = a.Next() {
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
