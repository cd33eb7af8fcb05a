//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/pagetest"
)

// traced is the part of a line of rdmalink trace that is the same in each run: the call and
// its name.
var traced = regexp.MustCompile(`^\[\d+\] +(\S+ open|ioctl \S+ \S+|write \S+)`)

// TestSandbox compares the calls of the first program that the page shows with the output of
// rdmalink trace.
func TestSandbox(t *testing.T) {
	rdmalink, err := exec.LookPath("rdmalink")
	if err != nil {
		t.Skip("rdmalink is not installed: make sandbox builds it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	concepts, file := filepath.Join(dir, "concepts"), filepath.Join(dir, "trace")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", concepts, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, folder := range languages {
		n := pagetest.Check(t, filepath.Join(folder, "tutorial.md"), "trace", func(words []string) string {
			out, err := exec.CommandContext(ctx, rdmalink, "sandbox", "--", rdmalink, "trace", "-o", file, "--", concepts, "-rxe", "rxe0", words[0]).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var calls strings.Builder
			for line := range strings.Lines(string(text)) {
				m := traced.FindStringSubmatch(line)
				if m == nil {
					t.Errorf("%q", line)
					continue
				}
				calls.WriteString(m[1] + "\n")
			}
			return calls.String()
		})
		if n != 1 {
			t.Errorf("%s shows %d traces", folder, n)
		}
	}
}
