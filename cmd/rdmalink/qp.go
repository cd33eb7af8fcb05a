package main

import (
	"context"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/qpstates"
)

func qpCommand() command {
	return command{
		names:   []string{"qp"},
		summary: "explain queue pairs",
		sub:     []command{qpStatesCommand(), helpCommand("qp")},
	}
}

func qpStatesCommand() command {
	return command{
		names:   []string{"states"},
		args:    "[" + strings.Join(qpstates.Names(), " | ") + "]",
		summary: "draw the states of a queue pair, what each allows and needs, and where the QPs of this host stand",
		details: qpstates.Details,
		options: []option{{long: "--svg", value: "FILE", summary: "write the drawing to FILE, as SVG", take: func(t *tool, file string) error { t.svg = file; return nil }}},
		run:     showQPStates,
	}
}

func showQPStates(_ context.Context, t *tool, w *words) error {
	name := ""
	if w.more() {
		word := w.peek()
		if name = strings.ToLower(word); !slices.Contains(qpstates.Names(), name) {
			return cli.Expected(word, qpstates.Names()...)
		}
		w.advance()
	}
	if err := w.end(); err != nil {
		return err
	}
	return qpstates.Show(&t.Machine, &t.Output, name, t.svg)
}
