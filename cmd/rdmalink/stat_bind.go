package main

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func statQPBindCommand() command {
	const summary = "bind a QP to a new counter, or to one that there is"
	return command{
		names:   []string{"bind"},
		summary: summary,
		sub:     []command{linkWord("DEV/PORT lqpn LQPN [cntn CNTN]", summary, bindQP), helpCommand("statistic", "qp", "bind")},
	}
}

func bindQP(_ context.Context, t *tool, w *words) error {
	return t.binding(w, "lqpn", func(d netlinkrdma.Device, port uint32, n bindNumbers) error {
		if n.counter.Known {
			return t.RDMA.BindToCounter(d.Index, port, n.qp.Value, n.counter.Value)
		}
		_, err := t.RDMA.BindCounter(d.Index, port, n.qp.Value)
		return err
	})
}

func statQPUnbindCommand() command {
	const summary = "take a QP, or all of them, off a counter, which the last one ends"
	return command{
		names:   []string{"unbind"},
		summary: summary,
		sub:     []command{linkWord("DEV/PORT cntn CNTN [lqpn LQPN]", summary, unbindQP), helpCommand("statistic", "qp", "unbind")},
	}
}

func unbindQP(_ context.Context, t *tool, w *words) error {
	return t.binding(w, "cntn", func(d netlinkrdma.Device, port uint32, n bindNumbers) error {
		if n.qp.Known {
			return t.RDMA.UnbindCounter(d.Index, port, n.qp.Value, n.counter.Value)
		}
		c, err := t.RDMA.GetQPCounter(d.Index, port, n.counter.Value)
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

// bindNumbers are those of a QP and of a counter, as far as they were given.
type bindNumbers struct{ qp, counter netlinkrdma.Opt[uint32] }

// binding takes the port and the numbers, of which one must be given, and has f
// do something with them.
func (t *tool) binding(w *words, must string, f func(d netlinkrdma.Device, port uint32, n bindNumbers) error) error {
	name, port, err := w.onePort()
	if err != nil {
		return err
	}
	given, err := parseFilters(w, []filterKey{{"lqpn", true}, {"cntn", true}})
	if err != nil {
		return err
	}
	if given.get(must) == nil {
		return cli.Expected("", must)
	}
	for _, one := range given {
		if _, ok := given.exact(one.name); !ok {
			return cli.UsageError{Text: fmt.Sprintf("%s %s: expected one number, at most 4294967295", one.name, given.text(one.name))}
		}
	}
	var n bindNumbers
	n.qp.Value, n.qp.Known = given.exact("lqpn")
	n.counter.Value, n.counter.Known = given.exact("cntn")
	return t.forPorts(name, port, func(d netlinkrdma.Device, port uint32) error { return f(d, port, n) })
}
