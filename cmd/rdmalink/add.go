package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
)

func addCommand() command {
	return command{
		names:   []string{"add"},
		args:    "NAME type TYPE netdev NETDEV",
		summary: "add a software RDMA device on a network device",
		details: `
TYPE is siw (iWARP over TCP) or rxe (RoCE over UDP). It needs CAP_NET_ADMIN; the
kernel loads the driver if it can.

What NETDEV lacks for a link that connects, add sets first: an IP address outside
127/8 (` + host.SpareAddr.String() + `, or the next one that is free), the up state, and for siw on
lo a hardware address (random, locally administered). On standard error it says
what it set, and how to undo that. If the link can't be added, it undoes that
itself. The hardware address of lo can't be made zero again, so it is set only
after a trial has shown that the kernel adds the link.

siw on lo then connects by 127.0.0.1 with rdmalink and with goverbs, and by
` + host.SpareAddr.Addr().String() + ` with any program. rdma_cm can't connect through rxe on lo.

With --keep-netdev nothing is set. add then refuses siw on lo without a hardware
address, since rdma_cm could never use that link, although it looks healthy.`,
		options: []option{{long: "--keep-netdev", summary: "leave NETDEV as it is", set: func(t *tool) { t.keepNetdev = true }}},
		run:     addLink,
	}
}

func addLink(_ context.Context, t *tool, w *words) error {
	name, typ, on, err := addWords(w)
	if err != nil {
		return err
	}
	dev, err := t.findNetdev(on)
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if t.keepNetdev {
		return t.addAsIs(name, typ, dev)
	}
	return t.addReady(name, typ, dev)
}

// addAsIs adds a link, and changes nothing on dev.
func (t *tool) addAsIs(name, typ string, dev host.Netdev) error {
	if err := refuseUnfit(typ, dev); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if err := t.RDMA.AddLink(name, typ, dev.Name); err != nil {
		return t.explainAdd(name, typ, dev, err)
	}
	t.noteUnusable(name, typ, dev)
	return nil
}

// addReady adds a link, after setting on dev what is missing.
func (t *tool) addReady(name, typ string, dev host.Netdev) error {
	if lacksMAC(typ, dev) {
		if err := t.tryLink(name, typ, dev); err != nil {
			return err
		}
	}
	changes, err := t.missing(typ, dev)
	if err == nil {
		err = apply(dev, changes)
	}
	if err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if err := t.RDMA.AddLink(name, typ, dev.Name); err != nil {
		return errors.Join(t.explainAdd(name, typ, dev, err), undo(dev, changes))
	}
	for _, c := range changes {
		t.Note("%s: %s", dev.Name, c.done)
	}
	t.noteRxeOnLo(typ, dev)
	return nil
}

// tryLink finds out whether the kernel adds this link, before a change that
// can't be undone. The link of the trial is deleted again: siw has already read
// the hardware address.
func (t *tool) tryLink(name, typ string, dev host.Netdev) error {
	if err := t.RDMA.AddLink(name, typ, dev.Name); err != nil {
		return t.explainAdd(name, typ, dev, err)
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

func addWords(w *words) (name, typ, on string, err error) {
	for _, step := range []func() error{
		func() (err error) { name, err = w.value("NAME"); return },
		func() error { return w.keyword("type") },
		func() (err error) { typ, err = w.value("TYPE (siw or rxe)"); return },
		func() error { return w.keyword("netdev") },
		func() (err error) { on, err = w.value("NETDEV"); return },
		w.end,
	} {
		if err := step(); err != nil {
			return "", "", "", err
		}
	}
	return name, typ, on, nil
}

// findNetdev finds a network device, or names those there are.
func (t *tool) findNetdev(name string) (host.Netdev, error) {
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
	return host.Netdev{}, fmt.Errorf("no network device %q in this network namespace (there are: %s)", name, strings.Join(names, ", "))
}

// noteUnusable says what will fail on a link that was added. None of it is
// final: an address can still come, and rxe without rdma_cm works.
func (t *tool) noteUnusable(name, typ string, dev host.Netdev) {
	if !dev.Up {
		t.Note("%s is down, and so is %s: ip link set %s up", dev.Name, name, dev.Name)
	}
	if !dev.Usable() && !(typ == "rxe" && dev.Loopback) {
		t.Note("%s has no IP address outside 127/8, by which rdma_cm would find %s: %s", dev.Name, name, dev.AddrCommand())
	}
	t.noteRxeOnLo(typ, dev)
}

// noteRxeOnLo tells of the one case that nothing mends.
func (t *tool) noteRxeOnLo(typ string, dev host.Netdev) {
	if typ == "rxe" && dev.Loopback {
		t.Note("rdma_cm can't connect through rxe on %s; verbs alone work (GID index 1). For rdma_cm use a dummy or veth device", dev.Name)
	}
}
