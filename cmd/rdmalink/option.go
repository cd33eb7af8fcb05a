package main

import (
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// option is a flag; one that takes a value has take in place of set.
type option struct {
	short   string // "-j", may be empty
	long    string // "--json"
	summary string
	set     func(*tool)
	value   string // what the value is: "FILE"
	take    func(t *tool, value string) error
}

// takeOptions takes the options off the words, up to --: before a command only
// the leading ones, since what follows may be the business of a raw command.
func (t *tool) takeOptions(path []command, w *words) error {
	leaf := len(path[len(path)-1].sub) == 0
	for i := w.pos; i < len(w.list) && !w.plain; {
		word := w.list[i]
		if word == "--" {
			w.list, w.plain = slices.Delete(slices.Clone(w.list), i, i+1), true
			break
		}
		if !strings.HasPrefix(word, "-") || word == "-" {
			if !leaf {
				return nil
			}
			i++
			continue
		}
		used, err := t.setOption(path, w.list[i:])
		if err != nil {
			return err
		}
		w.list = slices.Delete(slices.Clone(w.list), i, i+used)
	}
	return nil
}

// setOption applies --long, --long=VALUE, -s, or several short ones in one
// word, of which the last may have its value behind it, as getopt does. It
// tells how many words that took.
func (t *tool) setOption(path []command, words []string) (used int, err error) {
	known := optionsOf(path)
	if strings.HasPrefix(words[0], "--") {
		name, value, given := strings.Cut(words[0], "=")
		o, err := findOption(name, known)
		if err != nil {
			return 0, err
		}
		return o.apply(t, name, value, given, words)
	}
	for at, letter := range words[0] {
		if at == 0 {
			continue // the minus
		}
		name := "-" + string(letter)
		i := slices.IndexFunc(known, func(o option) bool { return o.short == name })
		if i < 0 {
			return 0, unknownOption(name, known)
		}
		if o := known[i]; o.take != nil {
			value := words[0][at+len(string(letter)):]
			return o.apply(t, name, value, value != "", words)
		}
		known[i].set(t)
	}
	return 1, nil
}

// findOption: a whole name, or a beginning that no other one shares.
func findOption(name string, known []option) (option, error) {
	var found []option
	for _, o := range known {
		if o.long == name {
			return o, nil
		}
		if strings.HasPrefix(o.long, name) {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return option{}, unknownOption(name, known)
	case 1:
		return found[0], nil
	}
	return option{}, unknownOption(name, found)
}

// apply sets the option, to the value that was given with its name, or else to
// the next word.
func (o option) apply(t *tool, name, value string, given bool, words []string) (used int, err error) {
	switch {
	case o.take == nil && given:
		return 0, cli.UsageError{Text: name + " takes no value"}
	case o.take == nil:
		o.set(t)
		return 1, nil
	case given:
		return 1, o.take(t, value)
	case len(words) < 2:
		return 0, cli.Expected(name, name+" "+o.value)
	}
	return 2, o.take(t, words[1])
}

// optionsOf lists the options that hold at the end of the path.
func optionsOf(path []command) []option {
	var all []option
	for _, c := range slices.Backward(path) {
		all = append(all, c.options...)
	}
	return all
}
