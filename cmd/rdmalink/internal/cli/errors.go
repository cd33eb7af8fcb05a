package cli

import (
	"fmt"
	"strings"
)

// UsageError is the error of an invalid command line.
type UsageError struct{ Text, Usage string }

func (e UsageError) Error() string { return e.Text + e.Usage }

// Expected returns the error for an unexpected word. word is empty at the end of the
// line; want lists the words that are allowed there.
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

// ExitCode is the error of a command that has already printed why it failed.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
