package main

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// command is one entry of the table that -h, the errors and the dispatch all
// come from. A command has sub-commands, or a run function, or both: then run
// is what happens when no word follows.
type command struct {
	names   []string // the first is the name, the others also work
	args    string   // what follows the name, for the usage line
	summary string   // one line
	details string   // further lines for its own -h
	options []option
	filters []filterKey // what a FILTER in args may be, where no KIND decides it
	sub     []command
	// leads makes a beginning that others share mean this command, where it is
	// the first of them: iproute2's rule for its own words.
	leads bool
	// raw leaves every word after the name to run, options too, except a
	// leading -h.
	raw bool
	run func(ctx context.Context, t *tool, w *words) error
}

func (c command) name() string { return c.names[0] }

// find picks the sub-command a word means: one of its names, or a beginning
// that no other one shares, or that it leads; names go before aliases.
func (c command) find(word string) (command, error) {
	begins := func(name string) bool { return word != "" && strings.HasPrefix(name, word) }
	for _, means := range []func(command) bool{
		func(s command) bool { return slices.Contains(s.names, word) },
		func(s command) bool { return begins(s.name()) },
		func(s command) bool { return slices.ContainsFunc(s.names, begins) },
	} {
		var found []command
		for _, s := range c.sub {
			if means(s) {
				found = append(found, s)
			}
		}
		if len(found) == 1 || len(found) > 1 && found[0].leads {
			return found[0], nil
		}
	}
	return command{}, cli.Expected(word, names(c.sub)...)
}

// dispatch follows the words down the table and runs what they lead to. path
// holds the commands above c.
func (t *tool) dispatch(ctx context.Context, c command, path []command, w *words) error {
	path = append(path, c)
	if c.raw {
		if next := w.peek(); next == "-h" || next == "--help" {
			t.help = true
		}
	} else if err := t.takeOptions(path, w); err != nil {
		return withUsage(path, err)
	}
	switch {
	case t.help:
		return writeHelp(t.Stdout, path)
	case t.version:
		return showVersion(ctx, t, w)
	case t.batch != "":
		return withUsage(path, t.runBatch(ctx, w))
	case len(c.sub) > 0 && w.more():
		next, err := c.find(w.peek())
		if err != nil {
			return withUsage(path, err)
		}
		w.advance()
		return t.dispatch(ctx, next, path, w)
	case c.run == nil:
		return withUsage(path, cli.Expected("", names(c.sub)...))
	}
	return withUsage(path, c.run(ctx, t, w))
}

func names(list []command) []string {
	all := make([]string, len(list))
	for i, c := range list {
		all[i] = c.name()
	}
	return all
}

// allCommands goes through the table, each command with those above it.
func allCommands(c command, above ...command) iter.Seq[[]command] {
	return func(yield func([]command) bool) {
		path := append(slices.Clone(above), c)
		if !yield(path) {
			return
		}
		for _, s := range c.sub {
			for below := range allCommands(s, path...) {
				if !yield(below) {
					return
				}
			}
		}
	}
}
