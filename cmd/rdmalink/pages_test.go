package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/pagetest"
)

// TestPages compares the output of commands with the pages that show it.
func TestPages(t *testing.T) {
	t.Chdir("../..")
	n := 0
	for _, pattern := range []string{"docs/*.md", "docs/concepts/*.md", "docs/zh/*.md", "docs/zh/concepts/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			n += pagetest.Check(t, file, "rdmalink", func(words []string) string {
				var out, errs bytes.Buffer
				code := run(context.Background(), words, strings.NewReader(""), &out, &errs)
				if code != 0 {
					t.Errorf("%s: exit code %d: %s", words, code, &errs)
				}
				text, _, _ := strings.Cut(out.String(), "\nThe QPs of this host:\n") // which differ
				return "$ rdmalink " + strings.Join(words, " ") + "\n" + text
			})
		}
	}
	if n == 0 {
		t.Error("no page shows a command")
	}
}
