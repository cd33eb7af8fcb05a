package rdma

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func linkCommand() cli.Command {
	return cli.Command{
		Names:   []string{"link"},
		Summary: "add, delete and show links; also without the word link",
		Sub:     []cli.Command{addCommand(), delCommand(), showCommand(), cli.HelpCommand("link")},
		Run:     showLinks,
	}
}

func showCommand() cli.Command {
	return cli.Command{
		Names:   []string{"show", "list"},
		Args:    "[DEV[/PORT]]",
		Summary: "show links and their network devices; with -d also the capabilities of ports",
		Details: "Text and JSON are the same as from iproute2's rdma link show.",
		Run:     showLinks,
	}
}

func showLinks(_ context.Context, t *cli.Tool, w *cli.Words) error {
	name, port, err := lastLink(w)
	if err != nil {
		return err
	}
	p := newPrinter(t)
	ports, err := portsOf(t, name, port)
	for _, port := range ports {
		p.link(port, t.Details > 0)
	}
	return p.close(err)
}

// lastLink takes the name of a link, which may be left out and ends the line.
func lastLink(w *cli.Words) (name string, port int, err error) {
	link, err := w.LastValue("DEV/PORT")
	if link == "" || err != nil {
		return "", 0, err
	}
	return splitLink(link)
}

// splitLink splits NAME/PORT. Port 0 means all ports.
func splitLink(word string) (name string, port int, err error) {
	name, number, _ := strings.Cut(word, "/")
	if name == "" {
		return "", 0, cli.Expected(word, "the name of a device, or DEV/PORT")
	}
	if number == "" {
		return name, 0, nil
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 {
		return "", 0, cli.UsageError{Text: fmt.Sprintf("%q: the port must be a number from 1", word)}
	}
	return name, int(n), nil
}

// portsOf lists the ports of one device, or of all devices if name is empty.
func portsOf(t *cli.Tool, name string, port int) ([]netlinkrdma.Port, error) {
	if name == "" {
		return allPorts(t)
	}
	d, err := t.RDMA.DeviceByName(name)
	if err != nil {
		return nil, err
	}
	ports, err := t.RDMA.Ports(d.Index)
	if err != nil || port == 0 {
		return ports, host.Named(d, err)
	}
	for _, p := range ports {
		if p.Index == port {
			return []netlinkrdma.Port{p}, nil
		}
	}
	return nil, noPort(d, port)
}

func allPorts(t *cli.Tool) ([]netlinkrdma.Port, error) {
	devices, err := t.RDMA.Devices()
	if err != nil {
		return nil, err
	}
	var all []netlinkrdma.Port
	for _, d := range devices {
		ports, err := t.RDMA.Ports(d.Index)
		if errors.Is(err, netlinkrdma.ErrNotFound) {
			continue // it was removed since it was listed
		}
		if err != nil {
			return nil, host.Named(d, err)
		}
		all = append(all, ports...)
	}
	return all, nil
}

// link prints a port as iproute2 does. In text, the index of a network device needs -d.
func (p *printer) link(port netlinkrdma.Port, details bool) {
	p.begin()
	if p.json {
		p.uint("ifindex", uint64(port.DeviceIndex))
		p.word("ifname", port.DeviceName)
		p.uint("port", uint64(port.Index))
	} else {
		p.word("link", fmt.Sprintf("%s/%d", port.DeviceName, port.Index))
	}
	if port.InfiniBand {
		p.word("subnet_prefix", port.SubnetPrefix.String())
		p.uint("lid", uint64(port.LID))
		p.uint("sm_lid", uint64(port.SMLID))
		p.uint("lmc", uint64(port.LMC))
	}
	p.word("state", port.State.String())
	p.word("physical_state", port.PhysState.String())
	if port.NetdevIndex != 0 {
		p.word("netdev", port.NetdevName)
		if p.json || details {
			p.uint("netdev_index", uint64(port.NetdevIndex))
		}
	}
	if details && port.InfiniBand {
		p.caps(port.CapFlags, portCapNames[:])
	}
	p.end(0)
}

func delCommand() cli.Command {
	return cli.Command{
		Names:   []string{"del", "delete"},
		Args:    "DEV",
		Summary: "delete a software RDMA device",
		Details: "This needs CAP_NET_ADMIN, and waits until every process has closed the device.",
		Run:     deleteLink,
	}
}

func deleteLink(_ context.Context, t *cli.Tool, w *cli.Words) error {
	return takeDeleted(t, w, t.RDMA.DeleteLink)
}
