package qpstates

import (
	"context"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command qp.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"qp"},
		Summary: "explain queue pairs",
		Sub:     []cli.Command{statesCommand(), cli.HelpCommand("qp")},
	}
}

func statesCommand() cli.Command {
	return cli.Command{
		Names:   []string{"states"},
		Args:    "[" + strings.Join(Names(), " | ") + "]",
		Summary: "draw the states of a queue pair and their transitions, and list the QPs of this host by state",
		Details: Details,
		Options: []cli.Option{{Long: "--svg", Value: "FILE", Summary: "write the drawing to FILE, as SVG"}},
		Run:     showStates,
	}
}

func showStates(_ context.Context, t *cli.Tool, w *cli.Words) error {
	name := ""
	if w.More() {
		word := w.Peek()
		if name = strings.ToLower(word); !slices.Contains(Names(), name) {
			return cli.Expected(word, Names()...)
		}
		w.Advance()
	}
	if err := w.End(); err != nil {
		return err
	}
	file, _ := t.Option("--svg")
	return Show(&t.Machine, &t.Output, name, file)
}
