package main

import (
	"context"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
)

func statQPCommand() command {
	return command{
		names:   []string{"qp"},
		summary: "counters to which QPs are bound, and how they come to be",
		sub: []command{
			statQPShowCommand(), statQPModeCommand(), statQPSetCommand(), statQPBindCommand(), statQPUnbindCommand(), helpCommand("statistic", "qp"),
		},
		run: showQPCounters,
	}
}

func statQPShowCommand() command {
	const summary = "counters, what they have counted, and their QPs"
	link := linkWord("[DEV[/PORT] [FILTER VALUE]...]", summary, showQPCounters)
	link.filters = qpCounterKeys
	return command{
		names:   []string{"show", "list"},
		leads:   true,
		summary: summary,
		details: `
Counters of a link can be picked by: cntn lqpn pid qp-type. A filter takes
several values: cntn 1,2,5-9 or qp-type RC,UD. A counter passes lqpn when one of
its QPs does.`,
		sub: []command{link, helpCommand("statistic", "qp", "show")},
		run: showQPCounters,
	}
}

var qpCounterKeys = []filterKey{{"cntn", true}, {"lqpn", true}, {"pid", true}, {"qp-type", false}}

// showQPCounters takes the name of a link, which is a filter of other objects.
func showQPCounters(_ context.Context, t *tool, w *words) error {
	link := ""
	if w.more() {
		var err error
		if link, err = w.value("DEV/PORT"); err != nil {
			return err
		}
	}
	f, err := parseFilters(w, qpCounterKeys)
	if err != nil {
		return err
	}
	if link != "" {
		f = append(f, filter{filterKey: filterKey{name: "link"}, words: []string{link}})
	}
	return t.showFiltered(&resourceKind{name: "qp", show: listQPCounters}, f)
}

// listQPCounters asks for those of all ports at once.
func listQPCounters(s *resourceShow) error {
	err := forEach(s, "cntn", s.t.RDMA.DumpQPCounter(s.dev.Index, s.options()), nil, s.qpCounter)
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
	s.p.end(q.Port)
}

func qpnList(list []netlinkrdma.QPRange) string {
	all := make([]string, len(list))
	for i, q := range list {
		all[i] = q.String()
	}
	return strings.Join(all, ",")
}

func (s *resourceShow) passQPCounter(q *netlinkrdma.QPCounter) bool {
	if f := s.f.get("lqpn"); f != nil && len(common(q.LQPN, f.ranges)) == 0 {
		return false
	}
	return s.hasPort(q.Port) && s.f.number("cntn", uint64(q.ID), true) && s.passOwner(q.Owner) &&
		s.f.word("qp-type", q.QPType.Value.String(), q.QPType.Known)
}
