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
	if near := nearest(word, want); near != "" {
		text += "; did you mean " + near + "?"
	}
	return UsageError{Text: fmt.Sprintf("%q: %s", word, text)}
}

// nearest returns the word of the list that a user is likely to have meant: the one that fewest typing errors turn into
// word, if they change no more than a third of word. If there is no such word, it returns the empty string.
func nearest(word string, list []string) string {
	best, least := "", len(word)/3+1
	for _, other := range list {
		if max(len(word), len(other)) > 64 {
			continue
		}
		if n := slips(word, other); n < least {
			best, least = other, n
		}
	}
	return best
}

// slips returns the number of bytes to insert, delete or replace, and of neighbours to swap, that make b of a.
func slips(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			n := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				n = 1 + min(n, rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				n = min(n, rows[i-2][j-2]+1)
			}
			rows[i][j] = n
		}
	}
	return rows[len(a)][len(b)]
}

// ExitCode is the error of a command that has already printed why it failed.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
