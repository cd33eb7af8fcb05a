package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/netlinkrdma"
)

func statQPSetCommand() command {
	const summary = "bind QPs automatically, or no longer"
	return command{
		names:   []string{"set"},
		summary: summary,
		details: `
QPs of the same type, of the same process, or both, get a counter together, from
then on. With optional-counters on, that counts the optional ones that are on, too.`,
		sub: []command{
			linkWord("DEV[/PORT] auto {off | {type | pid | type,pid} on} [optional-counters {on | off}]", summary, setAutoCounters),
			helpCommand("statistic", "qp", "set"),
		},
	}
}

func setAutoCounters(_ context.Context, t *tool, w *words) error {
	link, err := w.value("DEV/PORT")
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
	return t.forPorts(name, port, func(d netlinkrdma.Device, port uint32) error {
		return t.RDMA.SetAutoCounters(d.Index, port, by, o)
	})
}

// parseAuto reads auto off, or auto, the traits, and on.
func parseAuto(w *words) (by netlinkrdma.CounterMask, o *netlinkrdma.AutoOptions, err error) {
	if err := w.keyword("auto"); err != nil {
		return 0, nil, err
	}
	if w.keyword("off") != nil {
		if by, err = parseTraits(w.peek()); err != nil {
			return 0, nil, err
		}
		w.advance()
		if err := w.keyword("on"); err != nil {
			return 0, nil, err
		}
	}
	if !w.more() {
		return by, nil, nil
	}
	if err := w.keyword("optional-counters"); err != nil {
		return 0, nil, err
	}
	on, err := w.onOff()
	if err != nil {
		return 0, nil, err
	}
	return by, &netlinkrdma.AutoOptions{Optional: on}, w.end()
}

func parseTraits(word string) (by netlinkrdma.CounterMask, err error) {
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

func statSetCommand() command {
	const summary = "turn these optional counters on, and all others off"
	return command{
		names:   []string{"set"},
		summary: summary,
		sub: []command{
			linkWord("DEV/PORT optional-counters NAME[,NAME]...", summary, func(_ context.Context, t *tool, w *words) error { return t.setOptional(w, true) }),
			helpCommand("statistic", "set"),
		},
	}
}

func statUnsetCommand() command {
	const summary = "turn all optional counters off"
	return command{
		names:   []string{"unset"},
		summary: summary,
		sub: []command{
			linkWord("DEV/PORT optional-counters", summary, func(_ context.Context, t *tool, w *words) error { return t.setOptional(w, false) }),
			helpCommand("statistic", "unset"),
		},
	}
}

// setOptional turns those on that are named, or none.
func (t *tool) setOptional(w *words, named bool) error {
	name, port, err := w.onePort()
	if err != nil {
		return err
	}
	if err := w.keyword("optional-counters"); err != nil {
		return err
	}
	var on []string
	if named {
		on = strings.FieldsFunc(w.peek(), func(r rune) bool { return r == ',' })
		if len(on) == 0 {
			return cli.Expected(w.peek(), "names of optional counters (rdmalink statistic mode supported lists them)")
		}
		w.advance()
	}
	if err := w.end(); err != nil {
		return err
	}
	return t.forPorts(name, port, func(d netlinkrdma.Device, port uint32) error {
		return t.RDMA.SetOptionalCounters(d.Index, port, on...)
	})
}

// onePort takes DEV/PORT, where not all ports can be meant.
func (w *words) onePort() (name string, port uint32, err error) {
	link, err := w.value("DEV/PORT")
	if err != nil {
		return "", 0, err
	}
	name, port, err = splitLink(link)
	if err == nil && port == 0 {
		err = cli.UsageError{Text: fmt.Sprintf("%q: expected the port too: %s/1", link, name)}
	}
	return name, port, err
}
