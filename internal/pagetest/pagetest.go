// Package pagetest compares pages of the documentation with the output of programs. A
// directive stands before each block of a page whose text comes from elsewhere:
//
//	<!-- run keys -->
//	```text
//	…
//	```
//
// Tests with the flag -update write the blocks.
package pagetest

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what programs print into the pages")

// block is a directive, and the block of code that follows it.
var block = regexp.MustCompile("(?ms)^<!-- (\\w+)(?: ([^\n]*?))? -->\n```(\\w*)\n(.*?)^```$")

// Check compares the blocks of a page whose directive begins with verb with the result of
// text for the directive's words. It returns the number of blocks.
func Check(t *testing.T, file, verb string, text func(words []string) string) (n int) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return 0
	}
	written := block.ReplaceAllStringFunc(string(page), func(whole string) string {
		m := block.FindStringSubmatch(whole)
		if m[1] != verb {
			return whole
		}
		n++
		want := text(strings.Fields(m[2]))
		if want != m[4] && !*update {
			t.Errorf("%s: %s %s: the page has\n%s\nand it is\n%s", file, m[1], m[2], m[4], want)
		}
		return whole[:len(whole)-len(m[4])-len("```")] + want + "```"
	})
	if *update && written != string(page) {
		if err := os.WriteFile(file, []byte(written), 0o644); err != nil {
			t.Error(err)
		}
	}
	return n
}
