package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// words is a cursor over the words of the command line.
type words struct {
	list  []string
	pos   int
	plain bool // -- stood before: no more options
}

// peek is the next word, or empty at the end.
func (w *words) peek() string {
	if w.more() {
		return w.list[w.pos]
	}
	return ""
}

func (w *words) advance() { w.pos++ }

// more tells whether a word is left, be it an empty one, which is no name of
// anything: a script's variable that was never set is not the same as no word.
func (w *words) more() bool { return w.pos < len(w.list) }

// rest takes all words that are left.
func (w *words) rest() []string {
	rest := w.list[min(w.pos, len(w.list)):]
	w.pos = len(w.list)
	return rest
}

// value takes a word the user chose; what names it.
func (w *words) value(what string) (string, error) {
	word := w.peek()
	switch {
	case !w.more():
		return "", cli.Expected("", what)
	case word == "":
		return "", cli.UsageError{Text: `"": expected ` + what}
	}
	w.advance()
	return word, nil
}

// lastValue takes a word that may be left out, and ends the line.
func (w *words) lastValue(what string) (string, error) {
	if !w.more() {
		return "", nil
	}
	word, err := w.value(what)
	if err != nil {
		return "", err
	}
	return word, w.end()
}

// keyword takes a fixed word, or the beginning of it.
func (w *words) keyword(want string) error {
	word := w.peek()
	if word == "" || !strings.HasPrefix(want, word) {
		return cli.Expected(word, want)
	}
	w.advance()
	return nil
}

// oneOf takes one of some fixed words, or a beginning: of several that begin so
// it is the first, as in iproute2.
func (w *words) oneOf(want ...string) (string, error) {
	word := w.peek()
	i := slices.IndexFunc(want, func(s string) bool { return strings.HasPrefix(s, word) })
	if word == "" || i < 0 {
		return "", cli.Expected(word, want...)
	}
	w.advance()
	return want[i], nil
}

// onOff takes one of these two words, whole.
func (w *words) onOff() (on bool, err error) {
	switch w.peek() {
	case "on":
		on = true
	case "off":
	default:
		return false, cli.Expected(w.peek(), "on", "off")
	}
	w.advance()
	return on, nil
}

// end wants no word to be left.
func (w *words) end() error {
	if w.more() {
		return cli.UsageError{Text: fmt.Sprintf("%q is one word too many", w.list[w.pos])}
	}
	return nil
}
