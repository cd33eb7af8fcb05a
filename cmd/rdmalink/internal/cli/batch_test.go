package cli

import (
	"strings"
	"testing"
)

func FuzzBatchLine(f *testing.F) {
	for _, seed := range []string{"", "dev show", `'a b' "c`, "a'b\t\"\"", `""''x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := SplitLine(line)
		if err != nil {
			return
		}
		for _, w := range words {
			if !strings.Contains(line, w) {
				t.Errorf("%q of %q", w, line)
			}
		}
	})
}
