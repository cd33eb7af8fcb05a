//go:build linux && vmhost

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/rig"
)

// inGuest boots the newest series; tests of the rig itself need no other.
func inGuest(ctx context.Context, flags, script string) (code int, stdout, stderr string) {
	args := append([]string{"run"}, strings.Fields(flags)...)
	var out, errs bytes.Buffer
	code = run(ctx, append(args, "--", "sh", "-c", script), &out, &errs)
	return code, out.String(), errs.String()
}

func TestOutputAndExitCode(t *testing.T) {
	t.Setenv("GOVERBS_TEST", "a b\nc")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("from the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	code, out, errs := inGuest(t.Context(), "", `
		cat file; echo; echo "$GOVERBS_TEST"; seq 100000 | sha256sum; seq 100000
		echo "$GOVERBS_VM" >&2; echo gone > file; exit 7`)
	if code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	if want := "from the host\na b\nc\n"; !strings.HasPrefix(out, want) {
		t.Errorf("stdout begins %.60q, want %q", out, want)
	}
	if !strings.HasSuffix(out, "\n99999\n100000\n") || len(out) < 588895 {
		t.Errorf("stdout has %d bytes and ends %q", len(out), out[max(0, len(out)-20):])
	}
	k, err := rig.Open(rig.Series[0])
	if err != nil {
		t.Fatal(err)
	}
	if errs != k.Release+"\n" {
		t.Errorf("stderr %q, want %q", errs, k.Release)
	}
	if text, err := os.ReadFile("file"); err != nil || string(text) != "from the host" {
		t.Errorf("the guest changed a file of the host: %q, %v", text, err)
	}
}

func TestPanicIsAFailure(t *testing.T) {
	code, out, errs := inGuest(t.Context(), "", "echo before; sleep 1; echo c > /proc/sysrq-trigger; sleep 60")
	if code != exitRig || out != "before\n" {
		t.Errorf("code %d, want %d; stdout %q", code, exitRig, out)
	}
	for _, want := range []string{"sysrq triggered crash", "the guest died"} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in stderr:\n%s", want, errs)
		}
	}
}

func TestTimeoutShowsStacks(t *testing.T) {
	code, _, errs := inGuest(t.Context(), "-timeout 2s", "trap 'echo stacks >&2' QUIT; while :; do sleep 0.1; done")
	if code != 124 || !strings.Contains(errs, "stacks") || !strings.Contains(errs, "still running after 2s") {
		t.Errorf("code %d, want 124; stderr %q", code, errs)
	}
}

func TestCancelKillsTheGuest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	start := time.Now()
	code, _, errs := inGuest(ctx, "", "sleep 300")
	if d := time.Since(start); code != exitRig || d > 20*time.Second {
		t.Errorf("code %d after %s, want %d after 8s; stderr %q", code, d, exitRig, errs)
	}
}
