package cli

import (
	"maps"
	"slices"
	"strings"
)

// Option is an option of a command, which reads it with Tool.Option. The options of
// all commands have Set, or Take if they have a value.
type Option struct {
	Short   string // "-j", may be empty
	Long    string // "--json"
	Value   string // the name of the value: "FILE"; empty for a flag
	Summary string
	Set     func(*Tool)
	Take    func(t *Tool, value string) error
}

// set applies the option. A flag has the empty value.
func (o Option) set(t *Tool, value string) error {
	switch {
	case o.Take != nil:
		return o.Take(t, value)
	case o.Set != nil:
		o.Set(t)
	default:
		given := maps.Clone(t.given) // lines of a batch have their own
		if given == nil {
			given = make(map[string]string)
		}
		given[o.Long] = value
		t.given = given
	}
	return nil
}

// GlobalOptions returns the options that every command has.
func GlobalOptions() []Option {
	return []Option{
		{Short: "-h", Long: "--help", Summary: "print this help", Set: func(t *Tool) { t.help = true }},
		{Short: "-V", Long: "--version", Summary: "print the version", Set: func(t *Tool) { t.version = true }},
		{Short: "-j", Long: "--json", Summary: "print JSON", Set: func(t *Tool) { t.JSON = true }},
		{Short: "-p", Long: "--pretty", Summary: "with -j: indent the JSON", Set: func(t *Tool) { t.Pretty = true }},
		{Short: "-d", Long: "--details", Summary: "print more; given twice, also driver-specific attributes", Set: func(t *Tool) { t.Details++ }},
		{Short: "-r", Long: "--raw", Summary: "print the device's own record of its objects", Set: func(t *Tool) { t.Raw = true }},
		{Short: "-o", Long: "--oneline", Summary: "print each object in one line, with a backslash for every line break", Set: func(t *Tool) { t.Oneline = true }},
		{Short: "-b", Long: "--batch", Value: "FILE", Summary: "run the commands in FILE, one a line; - for standard input", Take: (*Tool).setBatch},
		{Short: "-f", Long: "--force", Summary: "with -b: continue after a command that failed", Set: func(t *Tool) { t.force = true }},
	}
}

// takeOptions applies the options in the words, up to --, and removes them. Of a
// command with sub-commands it takes only the leading options, because the
// sub-command may be a raw one.
func (t *Tool) takeOptions(path []Command, w *Words) error {
	leaf := len(path[len(path)-1].Sub) == 0
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

// setOption applies --long, --long=VALUE, -s, or several short options in one
// word, of which the last may be followed by its value, as getopt does. It
// returns the number of words that it used.
func (t *Tool) setOption(path []Command, words []string) (used int, err error) {
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
		i := slices.IndexFunc(known, func(o Option) bool { return o.Short == name })
		if i < 0 {
			return 0, unknownOption(name, known)
		}
		o := known[i]
		if o.Value != "" {
			value := words[0][at+len(string(letter)):]
			return o.apply(t, name, value, value != "", words)
		}
		if err := o.set(t, ""); err != nil {
			return 0, err
		}
	}
	return 1, nil
}

// findOption returns the option with this long name or unambiguous abbreviation.
func findOption(name string, known []Option) (Option, error) {
	var found []Option
	for _, o := range known {
		if o.Long == name {
			return o, nil
		}
		if strings.HasPrefix(o.Long, name) {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return Option{}, unknownOption(name, known)
	case 1:
		return found[0], nil
	}
	return Option{}, unknownOption(name, found)
}

func unknownOption(word string, known []Option) UsageError {
	all := make([]string, len(known))
	for i, o := range known {
		all[i] = o.Long
	}
	return Expected(word, all...)
}

// apply sets the option to the value that was given with its name, or else to
// the next word. It returns the number of words that it used.
func (o Option) apply(t *Tool, name, value string, given bool, words []string) (used int, err error) {
	switch {
	case o.Value == "" && given:
		return 0, UsageError{Text: name + " takes no value"}
	case o.Value == "":
		return 1, o.set(t, "")
	case given:
		return 1, o.set(t, value)
	case len(words) < 2:
		return 0, Expected(name, name+" "+o.Value)
	}
	return 2, o.set(t, words[1])
}

// optionsOf lists the options of the last command of the path, and of those
// above it.
func optionsOf(path []Command) []Option {
	var all []Option
	for _, c := range slices.Backward(path) {
		all = append(all, c.Options...)
	}
	return all
}
