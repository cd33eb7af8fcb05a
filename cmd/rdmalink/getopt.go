package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/uverbs"
)

// getopt is the options of a command that takes them as C's getopt_long does:
// from its rows come -h, the parser and its errors. T is what they set.
type getopt[T any] []*optionRow[T]

// optionRow is an option.
type optionRow[T any] struct {
	letter      byte   // 0 when there is none
	long, value string // value names what follows; a flag has none
	help        string // "" for an option that is refused
	set         func(o *T, value string) error
}

func (r *optionRow[T]) name() string {
	if r.letter == 0 {
		return "--" + r.long
	}
	return "-" + string(r.letter)
}

// parse reads the words as getopt_long would: letters may share a word, a value
// may stand in its option's word or in the next, other words anywhere. word gets
// those.
func (g getopt[T]) parse(o *T, w *words, word func(string) error) error {
	for w.pos < len(w.list) {
		next := w.peek()
		w.advance()
		var err error
		switch {
		case next == "--":
			for _, next := range w.rest() {
				if err = word(next); err != nil {
					return err
				}
			}
		case strings.HasPrefix(next, "--"):
			err = g.long(o, next, w)
		case len(next) > 1 && next[0] == '-':
			err = g.letters(o, next[1:], w)
		default:
			err = word(next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// long applies --option, --option=value or --option value.
func (g getopt[T]) long(o *T, word string, w *words) error {
	name, value, assigned := strings.Cut(word[2:], "=")
	for _, r := range g {
		if r.long != name || assigned && r.value == "" {
			continue
		}
		if r.value != "" && !assigned {
			var err error
			if value, err = w.value(word + " " + r.value); err != nil {
				return err
			}
		}
		return r.set(o, value)
	}
	return g.badWord(word)
}

// letters applies the options of one word.
func (g getopt[T]) letters(o *T, word string, w *words) error {
	for i := range len(word) {
		r := g.letter(word[i])
		if r == nil {
			return g.badWord("-" + word[i:i+1])
		}
		if r.value == "" {
			if err := r.set(o, ""); err != nil {
				return err
			}
			continue
		}
		value := word[i+1:]
		if value == "" {
			var err error
			if value, err = w.value(fmt.Sprintf("-%c %s", r.letter, r.value)); err != nil {
				return err
			}
		}
		return r.set(o, value)
	}
	return nil
}

func (g getopt[T]) letter(letter byte) *optionRow[T] {
	for _, r := range g {
		if r.letter == letter {
			return r
		}
	}
	return nil
}

func (g getopt[T]) badWord(word string) error {
	var want []string
	for _, r := range g {
		if r.help != "" {
			want = append(want, r.name())
		}
	}
	return expected(word, append(want, "HOST")...)
}

// help is what -h says of the options.
func (g getopt[T]) help() string {
	var b strings.Builder
	for _, r := range g {
		letter, long := "    ", "--"+r.long
		if r.letter != 0 {
			letter = fmt.Sprintf("-%c, ", r.letter)
		}
		if r.value != "" {
			long += "=" + r.value
		}
		fmt.Fprintf(&b, "  %s%-18s %s\n", letter, long, r.help)
	}
	return b.String()
}

func flag[T any](field func(*T) *bool) func(*T, string) error {
	return func(o *T, _ string) error { *field(o) = true; return nil }
}

// number takes all that strtol takes: 0x10 is 16.
func number[T any](what string, least, most int64, field func(*T) *int) func(*T, string) error {
	return func(o *T, value string) error {
		n, err := strconv.ParseInt(value, 0, 64)
		if err != nil || n < least || n > most {
			return usageError{text: fmt.Sprintf("%q: the %s is a number from %d to %d", value, what, least, most)}
		}
		*field(o) = int(n)
		return nil
	}
}

func mtu[T any](field func(*T) *uverbs.MTU) func(*T, string) error {
	return func(o *T, value string) error {
		for mtu := uverbs.MTU256; mtu <= uverbs.MTU4096; mtu++ {
			if value == strconv.Itoa(mtu.Bytes()) {
				*field(o) = mtu
				return nil
			}
		}
		return expected(value, "256", "512", "1024", "2048", "4096")
	}
}
