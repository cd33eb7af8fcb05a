package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/verbs"
)

// Getopt is the list of options of a command that parses them as C's getopt_long does.
// The help, the parser and its errors come from its rows. T is the type that the
// options set.
type Getopt[T any] []*Row[T]

// Row is an option.
type Row[T any] struct {
	Letter      byte   // 0 when there is none
	Long, Value string // Value is the placeholder of the value; empty for a flag
	Help        string // "" for an option that is refused
	Set         func(o *T, value string) error
}

// NewRow returns an option that calls set.
func NewRow[T any](letter byte, long, value, help string, set func(o *T, value string) error) Row[T] {
	return Row[T]{letter, long, value, help, set}
}

// Options returns a command's options, in the order of the help.
func Options[T any](rows ...Row[T]) Getopt[T] {
	g := make(Getopt[T], len(rows))
	for i := range rows {
		g[i] = &rows[i]
	}
	return g
}

// Name returns the option as users write it: the letter, or else the long name.
func (r *Row[T]) Name() string {
	if r.Letter == 0 {
		return "--" + r.Long
	}
	return "-" + string(r.Letter)
}

// Parse reads the words as getopt_long would: letters may share a word, a value
// may stand in its option's word or in the next, other words anywhere. word gets
// those.
func (g Getopt[T]) Parse(o *T, args []string, word func(string) error) error {
	for plain := false; len(args) > 0; {
		next := args[0]
		args = args[1:]
		var err error
		switch {
		case plain || len(next) < 2 || next[0] != '-':
			err = word(next)
		case next == "--":
			plain = true
		case next[1] == '-':
			args, err = g.long(o, next, args)
		default:
			args, err = g.letters(o, next[1:], args)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// long applies --option, --option=value or --option value, and returns the words
// that are left.
func (g Getopt[T]) long(o *T, word string, args []string) (left []string, err error) {
	name, value, assigned := strings.Cut(word[2:], "=")
	for _, r := range g {
		if r.Long != name {
			continue
		}
		if assigned && r.Value == "" {
			return nil, UsageError{Text: "--" + name + " takes no value"}
		}
		if r.Value != "" && !assigned {
			if value, args, err = argument(args, word+" "+r.Value); err != nil {
				return nil, err
			}
		}
		return args, r.Set(o, value)
	}
	return nil, g.badWord(word)
}

// argument takes a value from the next word. placeholder names it in errors.
func argument(args []string, placeholder string) (value string, left []string, err error) {
	switch {
	case len(args) == 0:
		return "", nil, Expected("", placeholder)
	case args[0] == "":
		return "", nil, UsageError{Text: `"": expected ` + placeholder}
	}
	return args[0], args[1:], nil
}

// letters applies the options of one word, and returns the words that are left.
func (g Getopt[T]) letters(o *T, word string, args []string) (left []string, err error) {
	for i := range len(word) {
		r := g.letter(word[i])
		if r == nil {
			return nil, g.badWord("-" + word[i:i+1])
		}
		if r.Value == "" {
			if err := r.Set(o, ""); err != nil {
				return nil, err
			}
			continue
		}
		value := word[i+1:]
		if value == "" {
			if value, args, err = argument(args, fmt.Sprintf("-%c %s", r.Letter, r.Value)); err != nil {
				return nil, err
			}
		}
		return args, r.Set(o, value)
	}
	return args, nil
}

func (g Getopt[T]) letter(letter byte) *Row[T] {
	for _, r := range g {
		if r.Letter == letter {
			return r
		}
	}
	return nil
}

// badWord returns the error for an unknown option. It lists the options, in the long
// form if word is a long option.
func (g Getopt[T]) badWord(word string) error {
	var want []string
	for _, r := range g {
		switch {
		case r.Help == "":
		case strings.HasPrefix(word, "--"):
			want = append(want, "--"+r.Long)
		default:
			want = append(want, r.Name())
		}
	}
	return Expected(word, want...)
}

// Help returns the help text of the options.
func (g Getopt[T]) Help() string {
	var b strings.Builder
	for _, r := range g {
		letter, long := "    ", "--"+r.Long
		if r.Letter != 0 {
			letter = fmt.Sprintf("-%c, ", r.Letter)
		}
		if r.Value != "" {
			long += "=" + r.Value
		}
		fmt.Fprintf(&b, "  %s%-18s %s\n", letter, long, r.Help)
	}
	return b.String()
}

// Flag sets a bool.
func Flag[T any](field func(*T) *bool) func(*T, string) error {
	return func(o *T, _ string) error { *field(o) = true; return nil }
}

// Number returns a function that parses a number, in all forms of strtol: 0x10 is 16.
func Number[T any](name string, least, most int64, field func(*T) *int) func(*T, string) error {
	return func(o *T, value string) error {
		n, err := strconv.ParseInt(value, 0, 64)
		if err != nil || n < least || n > most {
			return UsageError{Text: fmt.Sprintf("%q: the %s must be a number from %d to %d", value, name, least, most)}
		}
		*field(o) = int(n)
		return nil
	}
}

// MTU returns a function that parses a path MTU in bytes.
func MTU[T any](field func(*T) *verbs.MTU) func(*T, string) error {
	return func(o *T, value string) error {
		for mtu := verbs.MTU256; mtu <= verbs.MTU4096; mtu++ {
			if value == strconv.Itoa(mtu.Bytes()) {
				*field(o) = mtu
				return nil
			}
		}
		return Expected(value, "256", "512", "1024", "2048", "4096")
	}
}
