//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// twice has the program as two processes. The page docs/first-hour.md shows it.
const twice = `
$READ -listen 198.51.100.1:7471 "hello, RDMA" &
until $READ 198.51.100.1:7471 2>/dev/null; do sleep 0.01; done
kill $!
`

// TestSandbox runs the program itself, on devices that rdmalink shows it.
func TestSandbox(t *testing.T) {
	rdmalink, err := exec.LookPath("rdmalink")
	if err != nil {
		t.Skip("rdmalink is not installed: go install github.com/goverbs/goverbs/cmd/rdmalink@latest")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	read := filepath.Join(t.TempDir(), "read")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", read, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, kind := range []string{"rxe", "siw"} {
		run := exec.CommandContext(ctx, rdmalink, "sandbox", "--device", kind, "--", "sh", "-c", twice)
		run.Env = append(os.Environ(), "READ="+read)
		if out, err := run.CombinedOutput(); err != nil || string(out) != "hello, RDMA\n" {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
}
