package rdma

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func statisticCommand() cli.Command {
	return cli.Command{
		Names:   []string{"statistic"},
		Summary: "show the counters of devices, and change their settings",
		Details: `
Without a command: the counters of each port. Text and JSON are the same as from
iproute2's rdma statistic. Commands that change settings need CAP_NET_ADMIN.`,
		Sub: []cli.Command{
			statShowCommand(), statQPCommand(), statMRCommand("statistic"), statModeCommand(), statSetCommand(), statUnsetCommand(), cli.HelpCommand("statistic"),
		},
		Run: showPortCounters,
	}
}

// statShowCommand has Leads set, as the first of iproute2's words does: s means show, not set.
func statShowCommand() cli.Command {
	const summary = "the counters of each port"
	return cli.Command{
		Names:   []string{"show", "list"},
		Leads:   true,
		Summary: summary,
		Sub:     []cli.Command{linkWord(linkArgs, summary, showPortCounters), statMRCommand("statistic", "show"), cli.HelpCommand("statistic", "show")},
		Run:     showPortCounters,
	}
}

const linkArgs = "[DEV[/PORT]]"

// linkWord returns the command link, which iproute2's statistic has in front of the name of a
// link.
func linkWord(args, summary string, run func(context.Context, *cli.Tool, *cli.Words) error) cli.Command {
	return cli.Command{Names: []string{"link"}, Args: args, Summary: summary, Run: run}
}

func showPortCounters(_ context.Context, t *cli.Tool, w *cli.Words) error {
	return showPorts(t, w, func(p *printer, d netlinkrdma.Device, port int) error {
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

// showPorts calls f to print each port of the link that the words name, or of all links. If
// no link is named, it skips ports without statistics, because not every driver has them.
func showPorts(t *cli.Tool, w *cli.Words, f func(p *printer, d netlinkrdma.Device, port int) error) error {
	name, port, err := lastLink(w)
	if err != nil {
		return err
	}
	p := newPrinter(t)
	err = forPorts(t, name, port, func(d netlinkrdma.Device, port int) error {
		err := f(p, d, port)
		if name == "" && errors.Is(err, netlinkrdma.ErrNoStatistics) {
			return nil
		}
		return err
	})
	return p.close(err)
}

// forPorts calls f for a port of the device, or for all of its ports if port is 0, or for the
// ports of all devices if name is empty.
func forPorts(t *cli.Tool, name string, port int, f func(d netlinkrdma.Device, port int) error) error {
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

// port prints the name of a link.
func (p *printer) port(device string, port int) {
	if p.json {
		p.word("ifname", device)
		p.uint("port", uint64(port))
		return
	}
	p.word("link", fmt.Sprintf("%s/%d", device, port))
}

// counters prints the counters, in text each on a line of its own.
func (p *printer) counters(list []netlinkrdma.Counter) {
	for _, c := range list {
		p.newline()
		p.uint(c.Name, c.Value)
	}
}

// statMRCommand takes filters in the place of a command, as iproute2's mr does. That is why it
// handles the words show and help itself.
func statMRCommand(above ...string) cli.Command {
	return cli.Command{
		Names:   []string{"mr"},
		Leads:   true,
		Args:    "[show] [dev DEV] [mrn MRN]",
		Summary: "the counters of memory regions",
		Run: func(_ context.Context, t *cli.Tool, w *cli.Words) error {
			switch word := w.Peek(); {
			case word == "":
			case strings.HasPrefix("help", word):
				return t.WriteHelp(append(above, "mr")...)
			case strings.HasPrefix("show", word) || strings.HasPrefix("list", word):
				w.Advance()
			}
			return showResourceKind(t, &resourceKind{name: "mr", keys: []cli.FilterKey{cli.WordKey("dev"), cli.NumberKey("mrn")}, show: showMRCounters}, w)
		},
	}
}

func showMRCounters(s *resourceShow) error {
	get := func(mrn uint32) (netlinkrdma.MRCounters, error) { return s.t.RDMA.MRCounters(s.dev.Index, mrn) }
	err := forEach(s, "mrn", s.t.RDMA.AllMRCounters(s.dev.Index, s.options()), get, s.mrCounters)
	return s.unlessNamed("dev", err)
}

func (s *resourceShow) mrCounters(m netlinkrdma.MRCounters) {
	if !s.f.Number("mrn", uint64(m.MRN), true) {
		return
	}
	s.beginOnDevice()
	s.p.uint("mrn", uint64(m.MRN))
	s.p.counters(m.Counters)
	s.p.end(0)
}

// unlessNamed returns err, or nil if all devices are shown and this one has no such
// statistics.
func (s *resourceShow) unlessNamed(key string, err error) error {
	if s.f.Get(key) == nil && errors.Is(err, netlinkrdma.ErrNoStatistics) {
		return nil
	}
	return err
}

// statModeCommand is about optional counters, unlike statQPModeCommand.
func statModeCommand() cli.Command {
	const on, there = "the optional counters that are on", "the optional counters that are supported"
	return cli.Command{
		Names:   []string{"mode"},
		Summary: on,
		Sub: []cli.Command{
			linkWord(linkArgs, on, showEnabled),
			{Names: []string{"show"}, Leads: true, Args: linkArgs, Summary: on, Run: showEnabled},
			{
				Names: []string{"supported"}, Summary: there, Run: showSupported,
				Sub: []cli.Command{linkWord(linkArgs, there, showSupported), cli.HelpCommand("statistic", "mode", "supported")},
			},
			cli.HelpCommand("statistic", "mode"),
		},
		Run: showEnabled,
	}
}

func showEnabled(_ context.Context, t *cli.Tool, w *cli.Words) error {
	return showOptional(t, w, "optional-counters", func(s netlinkrdma.CounterStatus) bool { return s.Optional && s.Enabled })
}

func showSupported(_ context.Context, t *cli.Tool, w *cli.Words) error {
	return showOptional(t, w, "supported optional-counters", func(s netlinkrdma.CounterStatus) bool { return s.Optional })
}

// showOptional prints the names of the counters for which want returns true. It skips a port
// without any.
func showOptional(t *cli.Tool, w *cli.Words, key string, want func(netlinkrdma.CounterStatus) bool) error {
	return showPorts(t, w, func(p *printer, d netlinkrdma.Device, port int) error {
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

func statQPModeCommand() cli.Command {
	const summary = "whether QPs are bound automatically, and by which criteria"
	return cli.Command{
		Names:   []string{"mode"},
		Summary: summary,
		Sub:     []cli.Command{linkWord(linkArgs, summary, showCounterMode), cli.HelpCommand("statistic", "qp", "mode")},
		Run:     showCounterMode,
	}
}

func showCounterMode(_ context.Context, t *cli.Tool, w *cli.Words) error {
	return showPorts(t, w, func(p *printer, d netlinkrdma.Device, port int) error {
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

// modeText returns "qp auto off" also if QPs are bound manually.
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

func statQPSetCommand() cli.Command {
	const summary = "bind QPs automatically, or stop doing so"
	return cli.Command{
		Names:   []string{"set"},
		Summary: summary,
		Details: `
From then on, QPs of the same type, of the same process, or both, share a counter.
With optional-counters on, it includes the optional counters that are on.`,
		Sub: []cli.Command{
			linkWord("DEV[/PORT] auto {off | {type | pid | type,pid} on} [optional-counters {on | off}]", summary, setAutoCounters),
			cli.HelpCommand("statistic", "qp", "set"),
		},
	}
}

func setAutoCounters(_ context.Context, t *cli.Tool, w *cli.Words) error {
	link, err := w.Value("DEV/PORT")
	if err != nil {
		return err
	}
	name, port, err := splitLink(link)
	if err != nil {
		return err
	}
	by, o, err := parseAuto(w)
	if err != nil {
		return err
	}
	return forPorts(t, name, port, func(d netlinkrdma.Device, port int) error {
		return t.RDMA.SetAutoCounters(d.Index, port, by, o)
	})
}

// parseAuto parses auto off, or auto, the criteria, and on.
func parseAuto(w *cli.Words) (by netlinkrdma.CounterMask, o *netlinkrdma.AutoOptions, err error) {
	if err := w.Keyword("auto"); err != nil {
		return 0, nil, err
	}
	if w.Keyword("off") != nil {
		if by, err = parseCriteria(w.Peek()); err != nil {
			return 0, nil, err
		}
		w.Advance()
		if err := w.Keyword("on"); err != nil {
			return 0, nil, err
		}
	}
	if !w.More() {
		return by, nil, nil
	}
	if err := w.Keyword("optional-counters"); err != nil {
		return 0, nil, err
	}
	on, err := w.OnOff()
	if err != nil {
		return 0, nil, err
	}
	return by, &netlinkrdma.AutoOptions{Optional: on}, w.End()
}

func parseCriteria(word string) (by netlinkrdma.CounterMask, err error) {
	for one := range strings.SplitSeq(word, ",") {
		switch one {
		case "type":
			by |= netlinkrdma.CountByType
		case "pid":
			by |= netlinkrdma.CountByPID
		default:
			return 0, cli.Expected(word, "off", "type", "pid", "type,pid")
		}
	}
	return by, nil
}

func statSetCommand() cli.Command {
	const summary = "turn these optional counters on, and all others off"
	return cli.Command{
		Names:   []string{"set"},
		Summary: summary,
		Sub: []cli.Command{
			linkWord("DEV/PORT optional-counters NAME[,NAME]...", summary, func(_ context.Context, t *cli.Tool, w *cli.Words) error { return setOptional(t, w, true) }),
			cli.HelpCommand("statistic", "set"),
		},
	}
}

func statUnsetCommand() cli.Command {
	const summary = "turn all optional counters off"
	return cli.Command{
		Names:   []string{"unset"},
		Summary: summary,
		Sub: []cli.Command{
			linkWord("DEV/PORT optional-counters", summary, func(_ context.Context, t *cli.Tool, w *cli.Words) error { return setOptional(t, w, false) }),
			cli.HelpCommand("statistic", "unset"),
		},
	}
}

// setOptional turns on the optional counters that the line names, or none, and turns off the
// others.
func setOptional(t *cli.Tool, w *cli.Words, named bool) error {
	name, port, err := onePort(w)
	if err != nil {
		return err
	}
	if err := w.Keyword("optional-counters"); err != nil {
		return err
	}
	var on []string
	if named {
		on = strings.FieldsFunc(w.Peek(), func(r rune) bool { return r == ',' })
		if len(on) == 0 {
			return cli.Expected(w.Peek(), "names of optional counters (rdmalink statistic mode supported lists them)")
		}
		w.Advance()
	}
	if err := w.End(); err != nil {
		return err
	}
	return forPorts(t, name, port, func(d netlinkrdma.Device, port int) error {
		return t.RDMA.SetOptionalCounters(d.Index, port, on...)
	})
}

// onePort takes DEV/PORT, and requires the port.
func onePort(w *cli.Words) (name string, port int, err error) {
	link, err := w.Value("DEV/PORT")
	if err != nil {
		return "", 0, err
	}
	name, port, err = splitLink(link)
	if err == nil && port == 0 {
		err = cli.UsageError{Text: fmt.Sprintf("%q: expected the port too: %s/1", link, name)}
	}
	return name, port, err
}
