package main

import (
	"context"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// statModeCommand is about optional counters, unlike the mode of QPs.
func statModeCommand() command {
	const on, there = "the optional counters that are on", "the optional counters that there are"
	return command{
		names:   []string{"mode"},
		summary: on,
		sub: []command{
			linkWord(linkArgs, on, showEnabled),
			{names: []string{"show"}, leads: true, args: linkArgs, summary: on, run: showEnabled},
			{
				names: []string{"supported"}, summary: there, run: showSupported,
				sub: []command{linkWord(linkArgs, there, showSupported), helpCommand("statistic", "mode", "supported")},
			},
			helpCommand("statistic", "mode"),
		},
		run: showEnabled,
	}
}

func showEnabled(_ context.Context, t *tool, w *words) error {
	return t.showOptional(w, "optional-counters", func(s netlinkrdma.CounterStatus) bool { return s.Optional && s.Enabled })
}

func showSupported(_ context.Context, t *tool, w *words) error {
	return t.showOptional(w, "supported optional-counters", func(s netlinkrdma.CounterStatus) bool { return s.Optional })
}

// showOptional prints the names of those that want takes. A port without any is
// left out.
func (t *tool) showOptional(w *words, key string, want func(netlinkrdma.CounterStatus) bool) error {
	return t.showPorts(w, func(p *printer, d netlinkrdma.Device, port uint32) error {
		list, err := t.RDMA.CounterStatus(d.Index, port)
		if err != nil {
			return err
		}
		var names []string
		for _, s := range list {
			if want(s) {
				names = append(names, s.Name)
			}
		}
		if len(names) == 0 {
			return nil
		}
		p.begin()
		p.port(d.Name, port)
		if p.json {
			p.list(key, len(names), func(i int) { p.value(names[i]) })
		} else {
			p.name(key)
			for i, name := range names {
				if i > 0 {
					p.text(",")
				}
				p.newline()
				p.text(name)
			}
		}
		p.end(0)
		return nil
	})
}

func statQPModeCommand() command {
	const summary = "whether QPs are bound automatically, and by what"
	return command{
		names:   []string{"mode"},
		summary: summary,
		sub:     []command{linkWord(linkArgs, summary, showCounterMode), helpCommand("statistic", "qp", "mode")},
		run:     showCounterMode,
	}
}

func showCounterMode(_ context.Context, t *tool, w *words) error {
	return t.showPorts(w, func(p *printer, d netlinkrdma.Device, port uint32) error {
		setting, err := t.RDMA.CounterMode(d.Index, port)
		if err != nil {
			return err
		}
		p.begin()
		if p.json {
			p.uint("ifindex", uint64(d.Index))
		}
		p.port(d.Name, port)
		p.word("mode", modeText(setting))
		p.end(0)
		return nil
	})
}

// modeText is "qp auto off", too, where QPs are bound by hand.
func modeText(s netlinkrdma.CounterSetting) string {
	if s.Mode != netlinkrdma.CountersAuto || s.By == 0 {
		return "qp auto off"
	}
	text := "qp auto " + s.By.String() + " on"
	switch {
	case !s.Optional.Known:
		return text
	case s.Optional.Value:
		return text + " optional-counters on"
	}
	return text + " optional-counters off"
}
