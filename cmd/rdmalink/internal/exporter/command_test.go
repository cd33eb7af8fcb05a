package exporter

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// script writes a program that prints its words and returns 7.
func script(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\necho \"$0 $*\"\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestFind checks that the program beside rdmalink comes before that in PATH, and that the error
// names the remedy.
func TestFind(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	beside, inPath := t.TempDir(), t.TempDir()
	t.Setenv("PATH", inPath)
	executable := func() (string, error) { return filepath.Join(beside, "rdmalink"), nil }
	if _, err := find(executable, exec.LookPath); err == nil || !strings.Contains(err.Error(), "make exporter") {
		t.Error(err)
	}
	for _, dir := range []string{inPath, beside} {
		script(t, dir)
		if name, err := find(executable, exec.LookPath); err != nil || name != filepath.Join(dir, program) {
			t.Error(name, err)
		}
	}
	if name, err := find(func() (string, error) { return "", os.ErrNotExist }, exec.LookPath); err != nil || filepath.Dir(name) != inPath {
		t.Error(name, err)
	}
}

// TestRun checks that words, output and exit code are passed on.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	script(t, dir)
	if err := exec.Command(filepath.Join(dir, program)).Run(); !errors.As(err, new(*exec.ExitError)) {
		t.Skip("no script runs here: ", err)
	}
	var out bytes.Buffer
	tool := &cli.Tool{Output: cli.Output{Stdout: &out, Stderr: &out}}
	var code cli.ExitCode
	err := run(context.Background(), tool, filepath.Join(dir, program), []string{"-h", "--x"})
	if !errors.As(err, &code) || code != 7 || !strings.HasSuffix(out.String(), program+" -h --x\n") {
		t.Error(err, out.String())
	}
}
