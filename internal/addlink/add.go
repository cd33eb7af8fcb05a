package addlink

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// Add adds a link. The error about a link that exists already names the links on the network device.
func Add(c *netlinkrdma.Client, name, typ string, dev Netdev) error {
	err := c.AddLink(name, typ, dev.Name)
	if !errors.Is(err, syscall.EEXIST) {
		return err
	}
	devices, _ := c.Devices()
	for _, d := range devices {
		ports, _ := c.Ports(d.Index)
		for _, p := range ports {
			if p.NetdevName == dev.Name {
				err = fmt.Errorf("%w; on it is %s", err, p.DeviceName)
			}
		}
	}
	return err
}

// AddReady makes the changes to dev that a link needs to connect, and then adds the link. It returns each change with
// the command that undoes it. If the link can't be added, AddReady undoes the changes.
func AddReady(c *netlinkrdma.Client, nets Netdevs, name, typ string, dev Netdev) (done []string, err error) {
	if dev.LacksMAC(typ) {
		if err := tryLink(c, name, typ, dev); err != nil {
			return nil, err
		}
	}
	all, err := makeReady(nets, typ, dev)
	if err != nil {
		return nil, fmt.Errorf("add %s: %w", name, err)
	}
	if err := Add(c, name, typ, dev); err != nil {
		return nil, errors.Join(err, undo(dev, all))
	}
	return describe(dev, all), nil
}

// Repair makes the changes to dev that a link on it needs to connect, and returns them.
func Repair(nets Netdevs, typ string, dev Netdev) (done []string, err error) {
	all, err := makeReady(nets, typ, dev)
	if err != nil {
		return nil, err
	}
	return describe(dev, all), nil
}

// makeReady makes the changes to dev that a link on it needs to connect.
func makeReady(nets Netdevs, typ string, dev Netdev) ([]change, error) {
	all, err := missing(nets, typ, dev)
	if err == nil {
		err = apply(dev, all)
	}
	return all, err
}

// tryLink checks that the kernel adds this link, before a change that can't be undone. It
// deletes the link again, because siw has already read the hardware address.
func tryLink(c *netlinkrdma.Client, name, typ string, dev Netdev) error {
	if err := Add(c, name, typ, dev); err != nil {
		return err
	}
	if err := Delete(c, name); err != nil {
		return fmt.Errorf("add %s: delete the link of the trial: %w", name, err)
	}
	return nil
}

// Delete deletes a link.
func Delete(c *netlinkrdma.Client, name string) error {
	d, err := c.DeviceByName(name)
	if err != nil {
		return err
	}
	return c.DeleteLink(d.Index)
}

// fixNet is TEST-NET-1 (RFC 5737). No network routes it, so an address from it
// hides no host that a program may want to reach.
var fixNet = netip.PrefixFrom(SpareAddr.Addr(), 24).Masked()

// SpareMAC is a hardware address for lo. It is locally administered and never leaves lo. AddReady itself sets a random
// one. siw derives the link's GID from it, and kernels before 6.6 find a link by its GID alone, so two namespaces with
// the same address could get each other's link.
const SpareMAC = "02:00:00:00:00:01"

// LacksMAC reports whether a siw link on dev could never connect: siw derives the link's
// GID from the hardware address when the link is added. Of the network devices that siw
// accepts, only lo may have an address of zeros.
func (d Netdev) LacksMAC(typ string) bool {
	return typ == "siw" && d.Loopback && len(d.MAC) == 0
}

// missing returns the changes to dev that a link needs to connect. The hardware address
// comes last, because that change can't be undone.
func missing(nets Netdevs, typ string, dev Netdev) ([]change, error) {
	if typ != "siw" && typ != "rxe" {
		return nil, nil
	}
	var all []change
	// rdma_cm never connects through rxe on lo, regardless of the address.
	if !dev.Usable() && !(typ == "rxe" && dev.Loopback) {
		addr, err := freeAddr(nets)
		if err != nil {
			return nil, err
		}
		all = append(all, addAddr(nets, dev, addr))
	}
	if !dev.Up {
		all = append(all, setUp(nets, dev))
	}
	if dev.LacksMAC(typ) {
		mac, err := randomMAC()
		if err != nil {
			return nil, err
		}
		all = append(all, setMAC(nets, dev, mac))
	}
	return all, nil
}

// freeAddr returns the first address of fixNet that no network device has. rdma_cm would
// find only one of two devices with the same address.
func freeAddr(nets Netdevs) (netip.Prefix, error) {
	devs, err := nets.List()
	if err != nil {
		return netip.Prefix{}, err
	}
	taken := make(map[netip.Addr]bool)
	for _, d := range devs {
		for _, a := range d.Addrs {
			taken[a] = true
		}
	}
	for a := SpareAddr.Addr(); fixNet.Contains(a); a = a.Next() {
		if !taken[a] {
			return netip.PrefixFrom(a, a.BitLen()), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("no address of %s is free", fixNet)
}

// randomMAC returns a locally administered unicast address.
func randomMAC() (net.HardwareAddr, error) {
	mac := make(net.HardwareAddr, 6)
	_, err := rand.Read(mac)
	mac[0] = 0x02
	return mac, err
}

// change is a change that makeReady makes to a network device.
type change struct {
	want string // "set it up"
	done string // "set up; undo it with …"
	do   func() error
	undo func() error // nil if the kernel can't undo it
}

func addAddr(nets Netdevs, dev Netdev, addr netip.Prefix) change {
	return change{
		want: "add the address " + addr.String(),
		done: fmt.Sprintf("address %s added; to undo: ip addr del %s dev %s", addr, addr, dev.Name),
		do:   func() error { return nets.AddAddr(dev.Name, addr) },
		undo: func() error { return nets.DelAddr(dev.Name, addr) },
	}
}

func setUp(nets Netdevs, dev Netdev) change {
	return change{
		want: "set it up",
		done: fmt.Sprintf("set up; to undo: ip link set %s down", dev.Name),
		do:   func() error { return nets.SetUp(dev.Name) },
		undo: func() error { return nets.SetDown(dev.Name) },
	}
}

// setMAC can't be undone, because the kernel accepts no hardware address of zeros.
func setMAC(nets Netdevs, dev Netdev, mac net.HardwareAddr) change {
	return change{
		want: "set its hardware address",
		done: fmt.Sprintf("hardware address set to %s; the kernel can't make it zero again, and %s needs none to work as before", mac, dev.Name),
		do:   func() error { return nets.SetMAC(dev.Name, mac) },
	}
}

// apply makes all changes. If one fails, it undoes those before it.
func apply(dev Netdev, all []change) error {
	for i, c := range all {
		if err := c.do(); err != nil {
			return errors.Join(fixError(dev.Name, c.want, err), undo(dev, all[:i]))
		}
	}
	return nil
}

// undo undoes the changes that the kernel can undo. Its error lists those that remain,
// with the commands that undo them.
func undo(dev Netdev, all []change) error {
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

func fixError(netdev, operation string, err error) error {
	remedy := ""
	if errors.Is(err, syscall.EPERM) {
		remedy = " (needs CAP_NET_ADMIN: run as root)"
	}
	return fmt.Errorf("fix %s: %s: %w%s", netdev, operation, err, remedy)
}

// describe returns a line for each change, with the command that undoes it.
func describe(dev Netdev, all []change) (done []string) {
	for _, c := range all {
		done = append(done, dev.Name+": "+c.done)
	}
	return done
}
