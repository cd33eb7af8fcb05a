//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

// tally is how many mutants the tests noticed, and which they did not.
type tally struct {
	noticed int
	lived   []mutant
}

// tryAll prints a line per mutant and a sum, and reports whether enough were noticed.
func tryAll(ctx context.Context, j *judge, mutants []mutant, stdout io.Writer) (bool, error) {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	j.dir, j.users = dir, make(map[string][]string)
	var t tally
	for _, m := range mutants {
		v, err := j.try(ctx, m)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(stdout, "%-8s  %v\n", v, m)
		switch v {
		case noticed:
			t.noticed++
		case lived:
			t.lived = append(t.lived, m)
		}
	}
	return t.print(stdout), nil
}

func (t tally) print(w io.Writer) (ok bool) {
	all := t.noticed + len(t.lived)
	if all == 0 {
		fmt.Fprintln(w, "no mutant")
		return false
	}
	fmt.Fprintf(w, "\n%d of %d noticed (%d %%)\n", t.noticed, all, 100*t.noticed/all)
	for _, m := range t.lived {
		fmt.Fprintf(w, "lived: %v\n", m)
	}
	return 100*t.noticed >= enough*all
}
