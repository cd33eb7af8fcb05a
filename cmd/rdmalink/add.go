package main

import (
	"context"
	"fmt"
	"strings"
)

func addCommand() command {
	return command{
		names:   []string{"add"},
		args:    "NAME type TYPE netdev NETDEV",
		summary: "add a software RDMA device on a network device",
		details: `
TYPE is siw (iWARP over TCP) or rxe (RoCE over UDP). It needs CAP_NET_ADMIN; the
kernel loads the driver if it can.

A siw link on lo needs what lo does not have by itself: a hardware address when
the link is added, and an IP address outside 127/8. Without the first, rdma_cm
can never use the link, although it looks healthy; so add refuses, and says what
to do. With --fix-netdev it does it: it gives lo a hardware address (random,
locally administered), the address ` + fixAddr.String() + `, and sets it up, as far as these
are missing. Then ` + fixAddr.Addr().String() + ` is the address to listen on and to dial.`,
		options: []option{{long: "--fix-netdev", summary: "siw: give lo what it lacks, before adding", set: func(t *tool) { t.fixNetdev = true }}},
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
	if typ == "siw" {
		if err := t.readyForSiw(&dev); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	}
	if err := t.rdma.AddLink(name, typ, on); err != nil {
		return t.explainAdd(name, typ, dev, err)
	}
	t.noteUnusable(name, typ, dev)
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
func (t *tool) findNetdev(name string) (netdev, error) {
	all, err := t.net.list()
	if err != nil {
		return netdev{}, fmt.Errorf("list network devices: %w", err)
	}
	names := make([]string, len(all))
	for i, d := range all {
		if d.name == name {
			return d, nil
		}
		names[i] = d.name
	}
	return netdev{}, fmt.Errorf("no network device %q in this network namespace (there are: %s)", name, strings.Join(names, ", "))
}

// noteUnusable says what will fail on a link that was added. None of it is
// final: an address can still come, and rxe without rdma_cm works.
func (t *tool) noteUnusable(name, typ string, dev netdev) {
	if !dev.up {
		t.note("%s is down, and so is %s: ip link set %s up", dev.name, name, dev.name)
	}
	switch {
	case typ == "rxe" && dev.loopback:
		t.note("rdma_cm can't connect through rxe on %s; verbs alone work (GID index 1). For rdma_cm use a dummy or veth device", dev.name)
	case !dev.usable():
		t.note("%s has no IP address outside 127/8, by which rdma_cm would find %s: %s", dev.name, name, addrCommand(dev))
	}
}
