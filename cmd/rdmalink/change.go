package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
)

// change is something that add does to a network device.
type change struct {
	want string // "set it up"
	done string // "set up; undo it with …"
	do   func() error
	undo func() error // nil where the kernel has no way back
}

func (t *tool) addAddr(dev host.Netdev, addr netip.Prefix) change {
	return change{
		want: "add the address " + addr.String(),
		done: fmt.Sprintf("address %s added; to undo: ip addr del %s dev %s", addr, addr, dev.Name),
		do:   func() error { return t.Net.AddAddr(dev.Name, addr) },
		undo: func() error { return t.Net.DelAddr(dev.Name, addr) },
	}
}

func (t *tool) setUp(dev host.Netdev) change {
	return change{
		want: "set it up",
		done: fmt.Sprintf("set up; to undo: ip link set %s down", dev.Name),
		do:   func() error { return t.Net.SetUp(dev.Name) },
		undo: func() error { return t.Net.SetDown(dev.Name) },
	}
}

// setMAC can't be undone: the kernel takes no hardware address of zeros.
func (t *tool) setMAC(dev host.Netdev, mac net.HardwareAddr) change {
	return change{
		want: "set its hardware address",
		done: fmt.Sprintf("hardware address set to %s; the kernel can't make it zero again, and %s needs none to work as before", mac, dev.Name),
		do:   func() error { return t.Net.SetMAC(dev.Name, mac) },
	}
}

// apply makes the changes, or none of them.
func apply(dev host.Netdev, all []change) error {
	for i, c := range all {
		if err := c.do(); err != nil {
			return errors.Join(fixError(dev.Name, c.want, err), undo(dev, all[:i]))
		}
	}
	return nil
}

// undo takes back what can be taken back. Its error tells what stays, and how
// to undo it by hand.
func undo(dev host.Netdev, all []change) error {
	var errs []error
	for _, c := range slices.Backward(all) {
		if c.undo == nil {
			errs = append(errs, fmt.Errorf("%s: %s", dev.Name, c.done))
		} else if err := c.undo(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s (%w)", dev.Name, c.done, err))
		}
	}
	return errors.Join(errs...)
}

func fixError(netdev, what string, err error) error {
	remedy := ""
	if errors.Is(err, syscall.EPERM) {
		remedy = " (needs CAP_NET_ADMIN: run as root)"
	}
	return fmt.Errorf("fix %s: %s: %w%s", netdev, what, err, remedy)
}
