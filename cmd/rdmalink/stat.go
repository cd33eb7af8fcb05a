package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/netlinkrdma"
)

func statisticCommand() command {
	return command{
		names:   []string{"statistic"},
		summary: "show what devices count, and set what they count for",
		details: `
Without a command: what is counted of each port. Text and JSON are those of
iproute2's rdma statistic. What sets something needs CAP_NET_ADMIN.`,
		sub: []command{
			statShowCommand(), statQPCommand(), statMRCommand("statistic"), statModeCommand(), statSetCommand(), statUnsetCommand(), helpCommand("statistic"),
		},
		run: showPortCounters,
	}
}

// statShowCommand leads, as iproute2's first word does: s means it, not set.
func statShowCommand() command {
	const summary = "what is counted of each port"
	return command{
		names:   []string{"show", "list"},
		leads:   true,
		summary: summary,
		sub:     []command{linkWord(linkArgs, summary, showPortCounters), statMRCommand("statistic", "show"), helpCommand("statistic", "show")},
		run:     showPortCounters,
	}
}

const linkArgs = "[DEV[/PORT]]"

// linkWord is the word link, which iproute2's statistic has before the name of
// one.
func linkWord(args, summary string, run func(context.Context, *tool, *words) error) command {
	return command{names: []string{"link"}, args: args, summary: summary, run: run}
}

func showPortCounters(_ context.Context, t *tool, w *words) error {
	return t.showPorts(w, func(p *printer, d netlinkrdma.Device, port uint32) error {
		counters, err := t.RDMA.PortCounters(d.Index, port)
		if err != nil {
			return err
		}
		p.begin()
		p.port(d.Name, port)
		p.counters(counters)
		p.end(0)
		return nil
	})
}

// showPorts has f print something of each port of the link that the words
// name, or of all. Where none is named, those are left out that have no such
// thing: not every driver counts.
func (t *tool) showPorts(w *words, f func(p *printer, d netlinkrdma.Device, port uint32) error) error {
	name, port, err := w.lastLink()
	if err != nil {
		return err
	}
	p := t.printer()
	err = t.forPorts(name, port, func(d netlinkrdma.Device, port uint32) error {
		err := f(p, d, port)
		if name == "" && errors.Is(err, netlinkrdma.ErrNoStatistics) {
			return nil
		}
		return err
	})
	return errors.Join(err, p.close())
}

// forPorts calls f for this port of the device, or for all of its ports when
// that is 0, or for those of all devices when there is no name.
func (t *tool) forPorts(name string, port uint32, f func(d netlinkrdma.Device, port uint32) error) error {
	return t.ForDevices(name, func(d netlinkrdma.Device) error {
		if port > d.Ports {
			return noPort(d, port)
		}
		first, last := port, port
		if port == 0 {
			first, last = 1, d.Ports
		}
		for n := first; n <= last; n++ {
			if err := f(d, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// port names a link.
func (p *printer) port(device string, port uint32) {
	if p.json {
		p.word("ifname", device)
		p.uint("port", uint64(port))
		return
	}
	p.word("link", fmt.Sprintf("%s/%d", device, port))
}

// counters prints each on a line of its own, in text.
func (p *printer) counters(list []netlinkrdma.Counter) {
	for _, c := range list {
		p.newline()
		p.uint(c.Name, c.Value)
	}
}
