package rdma

import (
	"context"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func statQPCommand() cli.Command {
	return cli.Command{
		Names:   []string{"qp"},
		Summary: "counters to which QPs are bound, and their settings",
		Sub: []cli.Command{
			statQPShowCommand(), statQPModeCommand(), statQPSetCommand(), statQPBindCommand(), statQPUnbindCommand(), cli.HelpCommand("statistic", "qp"),
		},
		Run: showQPCounters,
	}
}

func statQPShowCommand() cli.Command {
	const summary = "counters, their values and their QPs"
	link := linkWord("[DEV[/PORT] [FILTER VALUE]...]", summary, showQPCounters)
	link.Filters = qpCounterKeys
	return cli.Command{
		Names:   []string{"show", "list"},
		Leads:   true,
		Summary: summary,
		Details: `
Counters of a link can be filtered by: cntn lqpn pid qp-type. A filter takes
several values: cntn 1,2,5-9 or qp-type RC,UD. A counter passes lqpn if one of its
QPs does.`,
		Sub: []cli.Command{link, cli.HelpCommand("statistic", "qp", "show")},
		Run: showQPCounters,
	}
}

var qpCounterKeys = []cli.FilterKey{cli.NumberKey("cntn"), cli.NumberKey("lqpn"), cli.NumberKey("pid"), qpTypeKey("qp-type")}

// showQPCounters takes the name of a link first, which other objects take as a filter.
func showQPCounters(_ context.Context, t *cli.Tool, w *cli.Words) error {
	link := ""
	if w.More() {
		var err error
		if link, err = w.Value("DEV/PORT"); err != nil {
			return err
		}
	}
	f, err := cli.ParseFilters(w, qpCounterKeys)
	if err != nil {
		return err
	}
	if link != "" {
		f = append(f, cli.Filter{FilterKey: cli.WordKey("link"), Words: []string{link}})
	}
	return showFiltered(t, &resourceKind{name: "qp", show: listQPCounters}, f)
}

// listQPCounters requests the counters of all ports at once.
func listQPCounters(s *resourceShow) error {
	err := forEach(s, "cntn", s.t.RDMA.QPCounters(s.dev.Index, s.options()), nil, s.qpCounter)
	return s.unlessNamed("link", err)
}

func (s *resourceShow) qpCounter(q netlinkrdma.QPCounter) {
	if !s.passQPCounter(&q) {
		return
	}
	s.beginOnLink(q.Port)
	s.p.uint("cntn", uint64(q.ID))
	if q.QPType.Known {
		s.p.word("qp-type", q.QPType.Value.String())
	}
	s.owner(q.Owner)
	s.p.counters(q.Counters)
	if s.p.json {
		s.p.list("lqpn", len(q.LQPN), func(i int) { s.p.number(uint64(q.LQPN[i].First)) })
	} else {
		s.p.newline()
		s.p.text("LQPN: <" + qpnList(q.LQPN) + ">")
	}
	s.p.end(uint32(q.Port))
}

func qpnList(list []netlinkrdma.QPRange) string {
	all := make([]string, len(list))
	for i, q := range list {
		all[i] = q.String()
	}
	return strings.Join(all, ",")
}

func (s *resourceShow) passQPCounter(q *netlinkrdma.QPCounter) bool {
	if f := s.f.Get("lqpn"); f != nil && len(common(q.LQPN, f.Ranges)) == 0 {
		return false
	}
	return s.hasPort(q.Port) && s.f.Number("cntn", uint64(q.ID), true) && s.passOwner(q.Owner) &&
		s.f.Word("qp-type", q.QPType.Value.String(), q.QPType.Known)
}

func statQPBindCommand() cli.Command {
	const summary = "bind a QP to a new counter, or to an existing one"
	return cli.Command{
		Names:   []string{"bind"},
		Summary: summary,
		Sub:     []cli.Command{linkWord("DEV/PORT lqpn LQPN [cntn CNTN]", summary, bindQP), cli.HelpCommand("statistic", "qp", "bind")},
	}
}

func bindQP(_ context.Context, t *cli.Tool, w *cli.Words) error {
	return binding(t, w, "lqpn", func(d netlinkrdma.Device, port int, n bindNumbers) error {
		if n.counter.Known {
			return t.RDMA.BindToCounter(d.Index, port, n.qp.Value, netlinkrdma.CounterID(n.counter.Value))
		}
		_, err := t.RDMA.BindCounter(d.Index, port, n.qp.Value)
		return err
	})
}

func statQPUnbindCommand() cli.Command {
	const summary = "unbind a QP, or all QPs, from a counter; the last one deletes the counter"
	return cli.Command{
		Names:   []string{"unbind"},
		Summary: summary,
		Sub:     []cli.Command{linkWord("DEV/PORT cntn CNTN [lqpn LQPN]", summary, unbindQP), cli.HelpCommand("statistic", "qp", "unbind")},
	}
}

func unbindQP(_ context.Context, t *cli.Tool, w *cli.Words) error {
	return binding(t, w, "cntn", func(d netlinkrdma.Device, port int, n bindNumbers) error {
		if n.qp.Known {
			return t.RDMA.UnbindCounter(d.Index, port, n.qp.Value, netlinkrdma.CounterID(n.counter.Value))
		}
		c, err := t.RDMA.QPCounter(d.Index, port, netlinkrdma.CounterID(n.counter.Value))
		if err != nil {
			return err
		}
		for _, qp := range c.LQPN {
			if err := t.RDMA.UnbindCounter(d.Index, port, qp.First, c.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

// bindNumbers holds the numbers of a QP and of a counter, if they were given.
type bindNumbers struct{ qp, counter netlinkrdma.Opt[uint32] }

// binding takes the port and the numbers from the command line, and passes them to f.
// must names the number that has to be given.
func binding(t *cli.Tool, w *cli.Words, must string, f func(d netlinkrdma.Device, port int, n bindNumbers) error) error {
	name, port, err := onePort(w)
	if err != nil {
		return err
	}
	given, err := cli.ParseFilters(w, []cli.FilterKey{cli.NumberKey("lqpn"), cli.NumberKey("cntn")})
	if err != nil {
		return err
	}
	if given.Get(must) == nil {
		return cli.Expected("", must)
	}
	for _, one := range given {
		if _, ok := given.Exact(one.Name); !ok {
			return cli.UsageError{Text: fmt.Sprintf("%s %s: expected one number, at most 4294967295", one.Name, given.Text(one.Name))}
		}
	}
	var n bindNumbers
	n.qp.Value, n.qp.Known = given.Exact("lqpn")
	n.counter.Value, n.counter.Known = given.Exact("cntn")
	return forPorts(t, name, port, func(d netlinkrdma.Device, port int) error { return f(d, port, n) })
}
