package cli

import "testing"

// TestNearest checks that a slip of the hand is answered with the word that was meant, and a wrong word is not.
func TestNearest(t *testing.T) {
	commands := []string{"dev", "link", "resource", "statistic", "monitor", "doctor", "DEV"}
	for word, want := range map[string]string{
		"resuorce": "resource", "statistics": "statistic", "lnik": "link", "moniter": "monitor", "--jsn": "", "dve": "dev",
		"x": "", "-b": "", "": "", "FOO": "", "doc": "", "rping": "",
	} {
		if got := nearest(word, commands); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := nearest("-b", []string{"-a", "-c"}); got != "" {
		t.Errorf("-b: %q", got)
	}
	const want = `"--jsno": expected one of --json, --pretty; did you mean --json?`
	if err := Expected("--jsno", "--json", "--pretty"); err.Error() != want {
		t.Error(err)
	}
}
