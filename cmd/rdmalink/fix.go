package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// fixAddr is what --fix-netdev gives lo: from TEST-NET-1 (RFC 5737), which no
// network routes, so that it hides no host a program may want to reach.
var fixAddr = netip.MustParsePrefix("192.0.2.1/32")

// fixMAC is the hardware address the remedy names. It is locally administered
// and never leaves lo. --fix-netdev takes a random one instead: the GID of the
// link is made from it, and kernels before 6.6 find a link by its GID alone,
// so that two namespaces with the same one could get each other's link.
const fixMAC = "02:00:00:00:00:01"

// readyForSiw makes sure that a link on dev can carry connections one day. A
// missing hardware address can't be mended later, because siw reads it when
// the link is added: that is why add refuses here instead of warning, even
// though iproute2 adds the link. Scripts that relied on it got a link whose
// every rdma_resolve_addr failed.
func (t *tool) readyForSiw(dev *netdev) error {
	if t.fixNetdev && dev.loopback {
		return t.fix(dev)
	}
	if dev.hasMAC || !dev.loopback {
		return nil
	}
	remedy := fmt.Sprintf("  ip link set %s address %s", dev.name, fixMAC)
	if !dev.usable() {
		remedy += "\n  " + addrCommand(*dev)
	}
	return fmt.Errorf(`%s has no hardware address, from which siw makes the GID of the link:
it would come up, but every connection through it would fail. Run first
%s
or let rdmalink do that: rdmalink add --fix-netdev …`, dev.name, remedy)
}

// fix gives the loopback device what it lacks, and says so.
func (t *tool) fix(dev *netdev) error {
	if !dev.hasMAC {
		mac, err := randomMAC()
		if err == nil {
			err = t.net.setMAC(dev.name, mac)
		}
		if err != nil {
			return fixError(dev.name, "set its hardware address", err)
		}
		t.note("%s: hardware address set to %s", dev.name, mac)
		dev.hasMAC = true
	}
	if !dev.usable() {
		if err := t.net.addAddr(dev.name, fixAddr); err != nil {
			return fixError(dev.name, "add the address "+fixAddr.String(), err)
		}
		t.note("%s: address %s added", dev.name, fixAddr)
		dev.addrs = append(dev.addrs, fixAddr.Addr())
	}
	if !dev.up {
		if err := t.net.setUp(dev.name); err != nil {
			return fixError(dev.name, "set it up", err)
		}
		t.note("%s: set up", dev.name)
		dev.up = true
	}
	return nil
}

func fixError(netdev, what string, err error) error {
	remedy := ""
	if errors.Is(err, syscall.EPERM) {
		remedy = " (needs CAP_NET_ADMIN: run as root)"
	}
	return fmt.Errorf("fix %s: %s: %w%s", netdev, what, err, remedy)
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
