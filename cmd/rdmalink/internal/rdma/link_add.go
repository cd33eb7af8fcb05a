package rdma

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func addCommand() cli.Command {
	return cli.Command{
		Names:   []string{"add"},
		Args:    "NAME type TYPE netdev NETDEV",
		Summary: "add a software RDMA device on a network device",
		Details: `
TYPE is siw (iWARP over TCP) or rxe (RoCE over UDP). add needs CAP_NET_ADMIN. The
kernel loads the driver if it can.

If NETDEV lacks something that a link needs to connect, add sets it first: an IP
address outside 127/8 (` + host.SpareAddr.String() + `, or the next free one), the up state, and for siw
on lo a hardware address (random, locally administered). It prints each change to
standard error, with the command that undoes it. If the link can't be added, add
undoes the changes itself. The hardware address of lo can't be made zero again, so
add first adds and deletes the link for a trial.

siw on lo then connects to 127.0.0.1 with rdmalink and with goverbs, and to
` + host.SpareAddr.Addr().String() + ` with any program. rdma_cm can't connect through rxe on lo.

With --keep-netdev add changes nothing on NETDEV. It then refuses siw on lo without a
hardware address, because rdma_cm could never use that link, although it looks
healthy.`,
		Options: []cli.Option{{Long: "--keep-netdev", Summary: "leave NETDEV as it is"}},
		Run:     addLink,
	}
}

func addLink(_ context.Context, t *cli.Tool, w *cli.Words) error {
	name, typ, on, err := addWords(w)
	if err != nil {
		return err
	}
	dev, err := findNetdev(t, on)
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if _, keep := t.Option("--keep-netdev"); keep {
		return addAsIs(t, name, typ, dev)
	}
	return addReady(t, name, typ, dev)
}

// addAsIs adds a link and leaves dev unchanged.
func addAsIs(t *cli.Tool, name, typ string, dev host.Netdev) error {
	if err := refuseUnfit(typ, dev); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if err := t.RDMA.AddLink(name, typ, dev.Name); err != nil {
		return explainAdd(t, name, typ, dev, err)
	}
	noteUnusable(t, name, typ, dev)
	return nil
}

// addReady first makes the changes to dev that a link needs to connect, then adds the link.
func addReady(t *cli.Tool, name, typ string, dev host.Netdev) error {
	if lacksMAC(typ, dev) {
		if err := tryLink(t, name, typ, dev); err != nil {
			return err
		}
	}
	changes, err := missing(t, typ, dev)
	if err == nil {
		err = apply(dev, changes)
	}
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if err := t.RDMA.AddLink(name, typ, dev.Name); err != nil {
		return errors.Join(explainAdd(t, name, typ, dev, err), undo(dev, changes))
	}
	for _, c := range changes {
		t.Note("%s: %s", dev.Name, c.done)
	}
	noteRxeOnLo(t, typ, dev)
	return nil
}

// tryLink checks that the kernel adds this link, before a change that can't be undone. It
// deletes the link again, because siw has already read the hardware address.
func tryLink(t *cli.Tool, name, typ string, dev host.Netdev) error {
	if err := t.RDMA.AddLink(name, typ, dev.Name); err != nil {
		return explainAdd(t, name, typ, dev, err)
	}
	d, err := t.RDMA.DeviceByName(name)
	if err == nil {
		err = t.RDMA.DeleteLink(d.Index)
	}
	if err != nil {
		return fmt.Errorf("add %s: delete the link of the trial: %w", name, err)
	}
	return nil
}

func addWords(w *cli.Words) (name, typ, on string, err error) {
	for _, step := range []func() error{
		func() (err error) { name, err = w.Value("NAME"); return },
		func() error { return w.Keyword("type") },
		func() (err error) { typ, err = w.Value("TYPE (siw or rxe)"); return },
		func() error { return w.Keyword("netdev") },
		func() (err error) { on, err = w.Value("NETDEV"); return },
		w.End,
	} {
		if err := step(); err != nil {
			return "", "", "", err
		}
	}
	return name, typ, on, nil
}

// findNetdev returns the network device of this name. Its error lists the devices.
func findNetdev(t *cli.Tool, name string) (host.Netdev, error) {
	all, err := t.Net.List()
	if err != nil {
		return host.Netdev{}, fmt.Errorf("list network devices: %w", err)
	}
	names := make([]string, len(all))
	for i, d := range all {
		if d.Name == name {
			return d, nil
		}
		names[i] = d.Name
	}
	return host.Netdev{}, fmt.Errorf("no network device %q in this network namespace (available: %s)", name, strings.Join(names, ", "))
}

// noteUnusable prints notes about operations that will fail on a link that was added.
// They are no errors: an address may be added later, and rxe works without rdma_cm.
func noteUnusable(t *cli.Tool, name, typ string, dev host.Netdev) {
	if !dev.Up {
		t.Note("%s is down, and so is %s: ip link set %s up", dev.Name, name, dev.Name)
	}
	if !dev.Usable() && !(typ == "rxe" && dev.Loopback) {
		t.Note("%s has no IP address outside 127/8, by which rdma_cm would find %s: %s", dev.Name, name, dev.AddrCommand())
	}
	noteRxeOnLo(t, typ, dev)
}

// noteRxeOnLo prints a note about the one case without a remedy.
func noteRxeOnLo(t *cli.Tool, typ string, dev host.Netdev) {
	if typ == "rxe" && dev.Loopback {
		t.Note("rdma_cm can't connect through rxe on %s; verbs alone work (GID index 1). For rdma_cm use a dummy or veth device", dev.Name)
	}
}

// fixNet is TEST-NET-1 (RFC 5737). No network routes it, so an address from it
// hides no host that a program may want to reach.
var fixNet = netip.PrefixFrom(host.SpareAddr.Addr(), 24).Masked()

// fixMAC is the hardware address that the error text suggests. It is locally
// administered and never leaves lo. add itself sets a random one. siw derives the
// link's GID from it, and kernels before 6.6 find a link by its GID alone, so two
// namespaces with the same address could get each other's link.
const fixMAC = "02:00:00:00:00:01"

// lacksMAC reports whether a siw link on dev could never connect: siw derives the link's
// GID from the hardware address when the link is added. Of the network devices that siw
// accepts, only lo may have an address of zeros.
func lacksMAC(typ string, dev host.Netdev) bool {
	return typ == "siw" && dev.Loopback && !dev.HasMAC
}

// refuseUnfit returns an error for a siw link that could never connect, because every
// rdma_resolve_addr through it would fail. iproute2 adds such a link.
func refuseUnfit(typ string, dev host.Netdev) error {
	if !lacksMAC(typ, dev) {
		return nil
	}
	remedy := fmt.Sprintf("  ip link set %s address %s", dev.Name, fixMAC)
	if !dev.Usable() {
		remedy += "\n  " + dev.AddrCommand()
	}
	return fmt.Errorf(`%s has no hardware address, from which siw derives the GID of the link:
the link would come up, but every connection through it would fail. Run first
%s
or let rdmalink do that: leave out --keep-netdev`, dev.Name, remedy)
}

// missing returns the changes to dev that a link needs to connect. The hardware address
// comes last, because that change can't be undone.
func missing(t *cli.Tool, typ string, dev host.Netdev) ([]change, error) {
	if typ != "siw" && typ != "rxe" {
		return nil, nil
	}
	var all []change
	// rdma_cm never connects through rxe on lo, regardless of the address.
	if !dev.Usable() && !(typ == "rxe" && dev.Loopback) {
		addr, err := freeAddr(t)
		if err != nil {
			return nil, err
		}
		all = append(all, addAddr(t, dev, addr))
	}
	if !dev.Up {
		all = append(all, setUp(t, dev))
	}
	if lacksMAC(typ, dev) {
		mac, err := randomMAC()
		if err != nil {
			return nil, err
		}
		all = append(all, setMAC(t, dev, mac))
	}
	return all, nil
}

// freeAddr returns the first address of fixNet that no network device has. rdma_cm would
// find only one of two devices with the same address.
func freeAddr(t *cli.Tool) (netip.Prefix, error) {
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

// randomMAC returns a locally administered unicast address.
func randomMAC() (net.HardwareAddr, error) {
	mac := make(net.HardwareAddr, 6)
	_, err := rand.Read(mac)
	mac[0] = 0x02
	return mac, err
}

// change is a change that add makes to a network device.
type change struct {
	want string // "set it up"
	done string // "set up; undo it with …"
	do   func() error
	undo func() error // nil if the kernel can't undo it
}

func addAddr(t *cli.Tool, dev host.Netdev, addr netip.Prefix) change {
	return change{
		want: "add the address " + addr.String(),
		done: fmt.Sprintf("address %s added; to undo: ip addr del %s dev %s", addr, addr, dev.Name),
		do:   func() error { return t.Net.AddAddr(dev.Name, addr) },
		undo: func() error { return t.Net.DelAddr(dev.Name, addr) },
	}
}

func setUp(t *cli.Tool, dev host.Netdev) change {
	return change{
		want: "set it up",
		done: fmt.Sprintf("set up; to undo: ip link set %s down", dev.Name),
		do:   func() error { return t.Net.SetUp(dev.Name) },
		undo: func() error { return t.Net.SetDown(dev.Name) },
	}
}

// setMAC can't be undone, because the kernel accepts no hardware address of zeros.
func setMAC(t *cli.Tool, dev host.Netdev, mac net.HardwareAddr) change {
	return change{
		want: "set its hardware address",
		done: fmt.Sprintf("hardware address set to %s; the kernel can't make it zero again, and %s needs none to work as before", mac, dev.Name),
		do:   func() error { return t.Net.SetMAC(dev.Name, mac) },
	}
}

// apply makes all changes. If one fails, it undoes those before it.
func apply(dev host.Netdev, all []change) error {
	for i, c := range all {
		if err := c.do(); err != nil {
			return errors.Join(fixError(dev.Name, c.want, err), undo(dev, all[:i]))
		}
	}
	return nil
}

// undo undoes the changes that the kernel can undo. Its error lists those that remain,
// with the commands that undo them.
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

func fixError(netdev, operation string, err error) error {
	remedy := ""
	if errors.Is(err, syscall.EPERM) {
		remedy = " (needs CAP_NET_ADMIN: run as root)"
	}
	return fmt.Errorf("fix %s: %s: %w%s", netdev, operation, err, remedy)
}

// explainAdd adds cause and remedy to the error of a link that was not added. The causes
// of each errno were determined on Linux 6.1 and 6.12.
func explainAdd(t *cli.Tool, name, typ string, dev host.Netdev, err error) error {
	var why string
	switch {
	case errors.Is(err, netlinkrdma.ErrInvalidName):
		return err
	case errors.Is(err, syscall.EPERM) && typ == "rxe" && dev.VLAN:
		why = fmt.Sprintf("rxe does not support VLAN devices such as %s: add it on the device below", dev.Name)
	case errors.Is(err, syscall.ENFILE):
		why = fmt.Sprintf("the name %s is taken: choose another, or rdmalink del %s", name, name)
	case errors.Is(err, syscall.EEXIST):
		why = alreadyOn(t, typ, dev)
	case errors.Is(err, syscall.EINVAL):
		why = unknownType(typ, dev)
	case errors.Is(err, syscall.ENOENT) && typ == "rxe":
		why = "rxe needs the kernel's crc32: modprobe crc32_generic"
	case errors.Is(err, syscall.ENODEV):
		why = fmt.Sprintf("network device %s went away", dev.Name)
	default:
		return err
	}
	return fmt.Errorf("add %s: %s (%w)", name, why, errnoOf(err))
}

// alreadyOn returns the text that names the link of the same type on the network device.
func alreadyOn(t *cli.Tool, typ string, dev host.Netdev) string {
	why := fmt.Sprintf("%s already has a link of type %s, and can have only one", dev.Name, typ)
	ports, err := allPorts(t)
	if err != nil {
		return why
	}
	for _, p := range ports {
		if p.NetdevName == dev.Name {
			why += fmt.Sprintf("; on it is %s", p.DeviceName)
		}
	}
	return why
}

// unknownType returns the text for EINVAL. The kernel has tried to load the module by
// then. It returns EINVAL also for a network device that the driver can't use.
func unknownType(typ string, dev host.Netdev) string {
	asked := fmt.Sprintf("the kernel has no link type %q and found no module rdma-link-%s for it, or the driver does not support %s", typ, typ, dev.Name)
	switch typ {
	case "siw":
		return asked + ". Try: modprobe siw. Some kernels, Debian's among them, are built without it (CONFIG_RDMA_SIW)"
	case "rxe":
		return asked + ". Try: modprobe rdma_rxe. Cloud kernels are often built without it (CONFIG_RDMA_RXE)"
	}
	return asked + ". The types are siw and rxe"
}

func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
