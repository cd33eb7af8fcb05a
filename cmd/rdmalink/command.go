package main

import (
	"context"
	"slices"
	"strings"
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
	sub     []command
	// leads makes a beginning that others share mean this command, where it is
	// the first of them: iproute2's rule for its own words.
	leads bool
	// raw leaves every word after the name to run, options too, except a
	// leading -h.
	raw bool
	run func(ctx context.Context, t *tool, w *words) error
}

// option is a flag without a value.
type option struct {
	short   string // "-j", may be empty
	long    string // "--json"
	summary string
	set     func(*tool)
}

func (c command) name() string { return c.names[0] }

// find picks the sub-command a word means: one of its names, or a beginning
// that no other one shares, or that it leads; names go before aliases.
func (c command) find(word string) (command, error) {
	begins := func(name string) bool { return strings.HasPrefix(name, word) }
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
	return command{}, expected(word, names(c.sub)...)
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
		return writeHelp(t.stdout, path)
	case t.version:
		return showVersion(ctx, t, w)
	case len(c.sub) > 0 && w.peek() != "":
		next, err := c.find(w.peek())
		if err != nil {
			return withUsage(path, err)
		}
		w.advance()
		return t.dispatch(ctx, next, path, w)
	case c.run == nil:
		return withUsage(path, expected("", names(c.sub)...))
	}
	return withUsage(path, c.run(ctx, t, w))
}

// takeOptions takes the options off the words: before a command only the
// leading ones, since what follows may be the business of a raw command.
func (t *tool) takeOptions(path []command, w *words) error {
	leaf := len(path[len(path)-1].sub) == 0
	for i := w.pos; i < len(w.list); {
		word := w.list[i]
		if !strings.HasPrefix(word, "-") || word == "-" {
			if !leaf {
				return nil
			}
			i++
			continue
		}
		if err := t.setOption(path, word); err != nil {
			return err
		}
		w.list = slices.Delete(slices.Clone(w.list), i, i+1)
	}
	return nil
}

// setOption applies --long, -s, or several short ones in one word.
func (t *tool) setOption(path []command, word string) error {
	known := optionsOf(path)
	for _, o := range known {
		if word == o.long {
			o.set(t)
			return nil
		}
	}
	if strings.HasPrefix(word, "--") {
		return unknownOption(word, known)
	}
	for _, letter := range word[1:] {
		i := slices.IndexFunc(known, func(o option) bool { return o.short == "-"+string(letter) })
		if i < 0 {
			return unknownOption("-"+string(letter), known)
		}
		known[i].set(t)
	}
	return nil
}

// optionsOf lists the options that hold at the end of the path.
func optionsOf(path []command) []option {
	var all []option
	for _, c := range slices.Backward(path) {
		all = append(all, c.options...)
	}
	return all
}

func names(list []command) []string {
	all := make([]string, len(list))
	for i, c := range list {
		all[i] = c.name()
	}
	return all
}
