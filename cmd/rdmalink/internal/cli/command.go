// Package cli is the command framework of rdmalink: the table of commands with its
// dispatch, help, usage errors, completion and manual page; the words, options and
// filters of iproute2's commands; options as getopt_long parses them; and output
// as text or JSON.
package cli

import (
	"context"
	"iter"
	"slices"
	"strings"
)

// Command is one entry of the table of commands. The help, the usage errors,
// the manual page, completion and the dispatch all use this table. A command has
// sub-commands, a Run function, or both; then Run is called if no word follows.
type Command struct {
	Names   []string // the name, then its aliases
	Args    string   // the arguments, for the usage line
	Summary string   // one line
	Details string   // further lines for the command's own -h
	Options []Option
	Filters []FilterKey // the keys of FILTER in Args, unless a KIND determines them
	Sub     []Command
	// Leads makes an ambiguous abbreviation mean this command if it is the first
	// of the candidates. That is iproute2's rule for its own words.
	Leads bool
	// Raw passes every word after the name to Run, options too, except a leading
	// -h.
	Raw bool
	Run func(ctx context.Context, t *Tool, w *Words) error
	// Expand lists the words that a placeholder of Args may stand for. It holds
	// for sub-commands too. Expand is not called for the placeholders that every
	// command shares: DEV, DEV/PORT and COMMAND.
	Expand func(t *Tool, c Command, typed []string, word string) []Candidate
}

// Name returns the command's name.
func (c Command) Name() string { return c.Names[0] }

// find returns the sub-command that word means: one of its names, or an
// abbreviation that is unambiguous or whose first candidate has Leads set. Names
// take precedence over aliases.
func (c Command) find(word string) (Command, error) {
	begins := func(name string) bool { return word != "" && strings.HasPrefix(name, word) }
	for _, means := range []func(Command) bool{
		func(s Command) bool { return slices.Contains(s.Names, word) },
		func(s Command) bool { return begins(s.Name()) },
		func(s Command) bool { return slices.ContainsFunc(s.Names, begins) },
	} {
		var found []Command
		for _, s := range c.Sub {
			if means(s) {
				found = append(found, s)
			}
		}
		if len(found) == 1 || len(found) > 1 && found[0].Leads {
			return found[0], nil
		}
	}
	return Command{}, Expected(word, CommandNames(c.Sub)...)
}

// dispatch follows the words down the table and runs the command that they
// name. path holds the commands above c.
func (t *Tool) dispatch(ctx context.Context, c Command, path []Command, w *Words) error {
	path = append(path, c)
	if c.Raw {
		if isHelp(w.Peek()) {
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
	case len(c.Sub) > 0 && w.More():
		next, err := c.find(w.Peek())
		if err != nil {
			return withUsage(path, err)
		}
		w.Advance()
		return t.dispatch(ctx, next, path, w)
	case c.Run == nil:
		return withUsage(path, Expected("", CommandNames(c.Sub)...))
	}
	t.path = path
	return withUsage(path, c.Run(ctx, t, w))
}

// Program returns the Run function of a raw command that parses its own
// options: f gets the words that are left. -h or --help anywhere before a --
// prints the help instead.
func Program(f func(ctx context.Context, t *Tool, args []string) error) func(context.Context, *Tool, *Words) error {
	return func(ctx context.Context, t *Tool, w *Words) error {
		args := w.Rest()
		own := args
		if i := slices.Index(args, "--"); i >= 0 {
			own = args[:i]
		}
		if slices.ContainsFunc(own, isHelp) {
			return writeHelp(t.Stdout, t.path)
		}
		return f(ctx, t, args)
	}
}

func isHelp(word string) bool { return word == "-h" || word == "--help" }

// CommandNames returns the names of the commands in the list.
func CommandNames(list []Command) []string {
	all := make([]string, len(list))
	for i, c := range list {
		all[i] = c.Name()
	}
	return all
}

// AllCommands iterates over the table below c. Each element is the path from c
// to a command.
func AllCommands(c Command) iter.Seq[[]Command] { return allCommands(c, nil) }

func allCommands(c Command, above []Command) iter.Seq[[]Command] {
	return func(yield func([]Command) bool) {
		path := append(slices.Clone(above), c)
		if !yield(path) {
			return
		}
		for _, s := range c.Sub {
			for below := range allCommands(s, path) {
				if !yield(below) {
					return
				}
			}
		}
	}
}

// Root returns the command rdmalink with the given sub-commands, followed by those
// of this package. The order decides between commands that have Leads set.
func Root(sub ...Command) Command {
	return Command{
		Names:   []string{"rdmalink"},
		Summary: "iproute2's rdma command, and tools to inspect, test and measure RDMA devices.",
		Details: `
Each line of a batch (-b) is a command, possibly with options of its own: dev
show -j. # begins a comment; a backslash at the end of a line continues it; quotes
enclose words with blanks. The first command that fails ends the batch, unless -f
is given.`,
		Options: GlobalOptions(),
		Sub:     append(sub, CompletionCommand(), ManCommand(), HelpCommand(), VersionCommand()),
	}
}
