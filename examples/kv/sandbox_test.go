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

// inSandbox has the program twice, as two processes.
const inSandbox = `
$KV -dev $DEVICE -listen 198.51.100.1:7471 &
$KV 198.51.100.1:7471 put colour red
$KV 198.51.100.1:7471 get colour
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
	kv := filepath.Join(t.TempDir(), "kv")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", kv, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for kind, device := range map[string]string{"rxe": "rxe0", "siw": "siw0"} {
		t.Run(kind, func(t *testing.T) {
			run := exec.CommandContext(ctx, rdmalink, "sandbox", "--device", kind, "--", "sh", "-c", inSandbox)
			run.Env = append(os.Environ(), "KV="+kv, "DEVICE="+device)
			if out, err := run.CombinedOutput(); err != nil || string(out) != "red\n" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
