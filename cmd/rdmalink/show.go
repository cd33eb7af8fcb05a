package main

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

func showCommand() command {
	return command{
		names:   []string{"show", "list"},
		args:    "[DEV[/PORT]]",
		summary: "show links and their network devices; with -d what ports can do",
		details: "Text and JSON are those of iproute2's rdma link show.",
		run:     showLinks,
	}
}

func showLinks(_ context.Context, t *tool, w *words) error {
	name, port, err := w.lastLink()
	if err != nil {
		return err
	}
	p := t.printer()
	ports, err := t.ports(name, port)
	for _, port := range ports {
		p.link(port, t.Details > 0)
	}
	return errors.Join(err, p.close())
}

// lastLink takes the name of a link, if there is one, which ends the line.
func (w *words) lastLink() (name string, port uint32, err error) {
	link, err := w.lastValue("DEV/PORT")
	if link == "" || err != nil {
		return "", 0, err
	}
	return splitLink(link)
}

// splitLink takes NAME/PORT apart; port 0 stands for all of them.
func splitLink(word string) (name string, port uint32, err error) {
	name, number, _ := strings.Cut(word, "/")
	if name == "" {
		return "", 0, cli.Expected(word, "the name of a device, or DEV/PORT")
	}
	if number == "" {
		return name, 0, nil
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 {
		return "", 0, cli.UsageError{Text: fmt.Sprintf("%q: the port is a number from 1", word)}
	}
	return name, uint32(n), nil
}

// ports lists the ports of one device, or of all when name is empty.
func (t *tool) ports(name string, port uint32) ([]netlinkrdma.Port, error) {
	if name == "" {
		return t.allPorts()
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

func (t *tool) allPorts() ([]netlinkrdma.Port, error) {
	devices, err := t.RDMA.Devices()
	if err != nil {
		return nil, err
	}
	var all []netlinkrdma.Port
	for _, d := range devices {
		ports, err := t.RDMA.Ports(d.Index)
		if errors.Is(err, netlinkrdma.ErrNotFound) {
			continue // it went away since it was listed
		}
		if err != nil {
			return nil, host.Named(d, err)
		}
		all = append(all, ports...)
	}
	return all, nil
}

// link prints a port as iproute2 does: in text a netdev's index is a detail.
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
