package record

import (
	"fmt"
	"io"
	"strings"
)

// Diff compares two recordings, and returns where they differ: the lines of the first behind
// a minus, those of the second behind a plus. It is empty when they are the same but for
// what is masked.
func Diff(a, b io.Reader) (string, error) {
	before, err := Masked(a)
	if err != nil {
		return "", err
	}
	after, err := Masked(b)
	if err != nil {
		return "", err
	}
	return compare(before, after), nil
}

// compare goes through both, line by line, and looks ahead for where they meet again.
func compare(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	var out strings.Builder
	for len(a) > 0 || len(b) > 0 {
		if len(a) > 0 && len(b) > 0 && a[0] == b[0] {
			a, b = a[1:], b[1:]
			continue
		}
		i, j := meet(a, b)
		for _, l := range a[:i] {
			fmt.Fprintf(&out, "-%s\n", l)
		}
		for _, l := range b[:j] {
			fmt.Fprintf(&out, "+%s\n", l)
		}
		a, b = a[i:], b[j:]
	}
	return out.String()
}

// far is how many lines of both meet looks at.
const far = 1000

// meet finds the nearest lines that are the same, or the ends where they are far.
func meet(a, b []string) (i, j int) {
	for sum := 1; sum < min(len(a)+len(b), far); sum++ {
		for i := max(0, sum-len(b)+1); i <= sum && i < len(a); i++ {
			if j := sum - i; j < len(b) && a[i] == b[j] {
				return i, j
			}
		}
	}
	return len(a), len(b)
}
