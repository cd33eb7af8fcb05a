package cli

import (
	"fmt"
	"slices"
	"strings"
)

// Words is a cursor over the words of the command line.
type Words struct {
	list  []string
	pos   int
	plain bool // after --: no more options
}

// NewWords returns a cursor at the first of some words.
func NewWords(list []string) *Words { return &Words{list: list} }

// Peek returns the next word, or the empty string at the end.
func (w *Words) Peek() string {
	if w.More() {
		return w.list[w.pos]
	}
	return ""
}

// Advance moves past the next word.
func (w *Words) Advance() { w.pos++ }

// More reports whether a word is left, even an empty one. The empty word, as
// from an unset variable in a script, is an invalid name, not the end of the
// line.
func (w *Words) More() bool { return w.pos < len(w.list) }

// Only reports whether exactly one word is left.
func (w *Words) Only() bool { return w.pos == len(w.list)-1 }

// Rest takes all words that are left.
func (w *Words) Rest() []string {
	rest := w.list[min(w.pos, len(w.list)):]
	w.pos = len(w.list)
	return rest
}

// Value takes a word that the user chose. placeholder names it in errors.
func (w *Words) Value(placeholder string) (string, error) {
	word := w.Peek()
	switch {
	case !w.More():
		return "", Expected("", placeholder)
	case word == "":
		return "", UsageError{Text: `"": expected ` + placeholder}
	}
	w.Advance()
	return word, nil
}

// LastValue takes the last word of the line. It returns the empty string if the
// word was left out.
func (w *Words) LastValue(placeholder string) (string, error) {
	if !w.More() {
		return "", nil
	}
	word, err := w.Value(placeholder)
	if err != nil {
		return "", err
	}
	return word, w.End()
}

// Keyword takes a fixed word or an abbreviation of it.
func (w *Words) Keyword(want string) error {
	word := w.Peek()
	if word == "" || !strings.HasPrefix(want, word) {
		return Expected(word, want)
	}
	w.Advance()
	return nil
}

// OneOf takes one of several fixed words or an abbreviation. An ambiguous
// abbreviation means the first, as in iproute2.
func (w *Words) OneOf(want ...string) (string, error) {
	word := w.Peek()
	i := slices.IndexFunc(want, func(s string) bool { return strings.HasPrefix(s, word) })
	if word == "" || i < 0 {
		return "", Expected(word, want...)
	}
	w.Advance()
	return want[i], nil
}

// OnOff takes the word on or off. It takes no abbreviation.
func (w *Words) OnOff() (on bool, err error) {
	switch w.Peek() {
	case "on":
		on = true
	case "off":
	default:
		return false, Expected(w.Peek(), "on", "off")
	}
	w.Advance()
	return on, nil
}

// End returns an error if a word is left.
func (w *Words) End() error {
	if w.More() {
		return UsageError{Text: fmt.Sprintf("unexpected argument %q", w.list[w.pos])}
	}
	return nil
}
