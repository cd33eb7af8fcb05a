//go:build linux && vmhost

package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// countArg makes the test binary the program whose instructions are counted.
const countArg = "count-instructions"

func init() {
	if len(os.Args) == 2 && os.Args[1] == countArg {
		countTurns()
		os.Exit(0)
	}
}

// countTurns prints how long no, 1000, 2000 and 3000 turns of a loop take: the
// shortest time, in which no interrupt came.
func countTurns() {
	for turns := range 4 {
		var took []time.Duration
		for range 25 {
			start := time.Now()
			spin(1000 * turns)
			took = append(took, time.Since(start))
		}
		fmt.Println(slices.Min(took).Nanoseconds())
	}
}

var spun int

//go:noinline
func spin(n int) {
	s := spun
	for i := range n {
		s += s ^ i
	}
	spun = s
}

// TestICount checks that each thousand turns take the same number of nanoseconds, a few thousands exactly, since it is
// the number of their instructions.
func TestICount(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"run", "-icount", "-timeout", "5m", "--", exe, countArg}, &out, &errs); code != 0 {
		t.Fatalf("code %d; stderr %s", code, &errs)
	}
	var ns [4]int
	if _, err := fmt.Sscan(out.String(), &ns[0], &ns[1], &ns[2], &ns[3]); err != nil {
		t.Fatalf("%q: %v", &out, err)
	}
	per := (ns[3] - ns[1]) / 2
	for i := 1; i < 3; i++ {
		if d := ns[i+1] - ns[i]; d != per || d%1000 != 0 || d < 3000 || d > 20000 {
			t.Errorf("%v: each step is to be the same, a few thousands exactly", ns)
		}
	}
}
