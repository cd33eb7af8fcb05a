package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
)

func showCommand() command {
	return command{
		names:   []string{"show", "list"},
		args:    "[NAME[/PORT]]",
		summary: "show links and their network devices",
		details: "Text and JSON are those of iproute2's rdma link show.",
		run:     showLinks,
	}
}

func showLinks(_ context.Context, t *tool, w *words) error {
	name, port, err := splitLink(w.peek())
	if err != nil {
		return err
	}
	w.advance()
	if err := w.end(); err != nil {
		return err
	}
	ports, err := t.ports(name, port)
	if err != nil {
		return err
	}
	if !t.json {
		return writeLinks(t.stdout, ports)
	}
	objects := make([]object, len(ports))
	for i, p := range ports {
		objects[i] = linkObject(p)
	}
	return writeJSON(t.stdout, objects, t.pretty)
}

// splitLink takes NAME/PORT apart; port 0 stands for all of them.
func splitLink(word string) (name string, port uint32, err error) {
	name, number, _ := strings.Cut(word, "/")
	if number == "" {
		return name, 0, nil
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n == 0 {
		return "", 0, usageError{text: fmt.Sprintf("%q: the port is a number from 1", word)}
	}
	return name, uint32(n), nil
}

// ports lists the ports of one device, or of all when name is empty.
func (t *tool) ports(name string, port uint32) ([]netlinkrdma.Port, error) {
	if name == "" {
		return t.allPorts()
	}
	d, err := t.rdma.DeviceByName(name)
	if err != nil {
		return nil, err
	}
	ports, err := t.rdma.Ports(d.Index)
	if err != nil || port == 0 {
		return ports, err
	}
	for _, p := range ports {
		if p.Index == port {
			return []netlinkrdma.Port{p}, nil
		}
	}
	return nil, fmt.Errorf("%s has no port %d, it has %d", name, port, d.Ports)
}

func (t *tool) allPorts() ([]netlinkrdma.Port, error) {
	devices, err := t.rdma.Devices()
	if err != nil {
		return nil, err
	}
	var all []netlinkrdma.Port
	for _, d := range devices {
		ports, err := t.rdma.Ports(d.Index)
		if errors.Is(err, netlinkrdma.ErrNotFound) {
			continue // it went away since it was listed
		}
		if err != nil {
			return nil, err
		}
		all = append(all, ports...)
	}
	return all, nil
}

// writeLinks prints iproute2's lines, with the blank it leaves at their end.
func writeLinks(out io.Writer, ports []netlinkrdma.Port) error {
	var b strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&b, "link %s/%d ", p.DeviceName, p.Index)
		if p.InfiniBand {
			fmt.Fprintf(&b, "subnet_prefix %s lid %d sm_lid %d lmc %d ", p.SubnetPrefix, p.LID, p.SMLID, p.LMC)
		}
		fmt.Fprintf(&b, "state %s physical_state %s ", p.State, p.PhysState)
		if p.NetdevIndex != 0 {
			fmt.Fprintf(&b, "netdev %s ", p.NetdevName)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func linkObject(p netlinkrdma.Port) object {
	o := object{{"ifindex", p.DeviceIndex}, {"ifname", p.DeviceName}, {"port", p.Index}}
	if p.InfiniBand {
		o = append(o, field{"subnet_prefix", p.SubnetPrefix.String()}, field{"lid", p.LID},
			field{"sm_lid", p.SMLID}, field{"lmc", p.LMC})
	}
	o = append(o, field{"state", p.State.String()}, field{"physical_state", p.PhysState.String()})
	if p.NetdevIndex != 0 {
		o = append(o, field{"netdev", p.NetdevName}, field{"netdev_index", p.NetdevIndex})
	}
	return o
}
