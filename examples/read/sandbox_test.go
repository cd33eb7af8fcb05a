//go:build linux

package main

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestSandbox runs the commands of docs/first-hour.md that run the program as two processes, on
// devices in software. It builds the binaries in another directory than the page.
func TestSandbox(t *testing.T) {
	if _, err := exec.LookPath("rdmalink"); err != nil {
		t.Skip("rdmalink is not installed: make sandbox, which runs this, builds it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	m := regexp.MustCompile("(?s)```\n(go build [^`]*rdmalink sandbox [^`]*)```").FindStringSubmatch(text(t, page))
	if m == nil {
		t.Fatalf("%s has no sandbox", page)
	}
	commands := strings.ReplaceAll(m[1], "bin/", t.TempDir()+"/")
	for _, kind := range []string{"", "siw"} {
		line := commands
		if kind != "" {
			line = edited(t, commands, " sandbox ", " sandbox --device "+kind+" ")
		}
		run := exec.CommandContext(ctx, "sh", "-ec", line)
		run.Dir, run.Stderr = "../..", t.Output() // the client may come before the server
		if out, err := run.Output(); err != nil || string(out) != "hello, RDMA\n" {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}
