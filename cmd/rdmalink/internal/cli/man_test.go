package cli

import "testing"

func TestRoffText(t *testing.T) {
	for text, want := range map[string]string{
		"a -b":  `a \-b`,
		".x":    `\&.x`,
		"'x":    `\&'x`,
		`a\fBx`: `a\efBx`,
		"2^20~": `2\(ha20\(ti`,
		" .x":   " .x",
	} {
		if got := roffText(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
