package rdma

import (
	"context"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/addlink"
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
address outside 127/8 (` + addlink.SpareAddr.String() + `, or the next free one), the up state, and for siw
on lo a hardware address (random, locally administered). It prints each change to
standard error, with the command that undoes it. If the link can't be added, add
undoes the changes itself. The hardware address of lo can't be made zero again, so
add first adds and deletes the link for a trial.

siw on lo then connects to 127.0.0.1 with rdmalink and with goverbs, and to
` + addlink.SpareAddr.Addr().String() + ` with any program. rdma_cm can't connect through rxe on lo.

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
func addAsIs(t *cli.Tool, name, typ string, dev addlink.Netdev) error {
	if err := refuseUnfit(typ, dev); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if err := addlink.Add(t.RDMA, name, typ, dev); err != nil {
		return err
	}
	noteUnusable(t, name, typ, dev)
	return nil
}

// addReady first makes the changes to dev that a link needs to connect, then adds the link.
func addReady(t *cli.Tool, name, typ string, dev addlink.Netdev) error {
	changes, err := addlink.AddReady(t.RDMA, t.Net, name, typ, dev)
	if err != nil {
		return err
	}
	for _, c := range changes {
		t.Note("%s", c)
	}
	noteRxeOnLo(t, typ, dev)
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
func findNetdev(t *cli.Tool, name string) (addlink.Netdev, error) {
	all, err := t.Net.List()
	if err != nil {
		return addlink.Netdev{}, fmt.Errorf("list network devices: %w", err)
	}
	names := make([]string, len(all))
	for i, d := range all {
		if d.Name == name {
			return d, nil
		}
		names[i] = d.Name
	}
	return addlink.Netdev{}, fmt.Errorf("no network device %q in this network namespace (available: %s)", name, strings.Join(names, ", "))
}

// noteUnusable prints notes about operations that will fail on a link that was added.
// They are no errors: an address may be added later, and rxe works without rdma_cm.
func noteUnusable(t *cli.Tool, name, typ string, dev addlink.Netdev) {
	if !dev.Up {
		t.Note("%s is down, and so is %s: ip link set %s up", dev.Name, name, dev.Name)
	}
	if !dev.Usable() && !(typ == "rxe" && dev.Loopback) {
		t.Note("%s has no IP address outside 127/8, by which rdma_cm would find %s: %s", dev.Name, name, dev.AddrCommand())
	}
	noteRxeOnLo(t, typ, dev)
}

// noteRxeOnLo prints a note about the one case without a remedy.
func noteRxeOnLo(t *cli.Tool, typ string, dev addlink.Netdev) {
	if typ == "rxe" && dev.Loopback {
		t.Note("rdma_cm can't connect through rxe on %s; verbs alone work (GID index 1). For rdma_cm use a dummy or veth device", dev.Name)
	}
}

// refuseUnfit returns an error for a siw link that could never connect, because every
// rdma_resolve_addr through it would fail. iproute2 adds such a link.
func refuseUnfit(typ string, dev addlink.Netdev) error {
	if !dev.LacksMAC(typ) {
		return nil
	}
	remedy := fmt.Sprintf("  ip link set %s address %s", dev.Name, addlink.SpareMAC)
	if !dev.Usable() {
		remedy += "\n  " + dev.AddrCommand()
	}
	return fmt.Errorf(`%s has no hardware address, from which siw derives the GID of the link:
the link would come up, but every connection through it would fail. Run first
%s
or let rdmalink do that: leave out --keep-netdev`, dev.Name, remedy)
}
