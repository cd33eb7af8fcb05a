package cli

import (
	"fmt"
	"strings"
)

// UsageError is a command line that makes no sense.
type UsageError struct{ Text, Usage string }

func (e UsageError) Error() string { return e.Text + e.Usage }

// Expected says what should stand in the place of word, which is empty at the
// end of the line.
func Expected(word string, want ...string) UsageError {
	text := "expected " + strings.Join(want, ", ")
	if len(want) > 1 {
		text = "expected one of " + strings.Join(want, ", ")
	}
	if word == "" {
		return UsageError{Text: text}
	}
	return UsageError{Text: fmt.Sprintf("%q: %s", word, text)}
}
