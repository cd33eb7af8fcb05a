//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build makes bin/rdmalink and everything in bin/bench: the Go programs, the C
// programs, one a file, and the cgo module's.
func build(ctx context.Context) error {
	if err := os.MkdirAll("bin/bench", 0o777); err != nil {
		return err
	}
	goes := [][]string{
		{"build", "-trimpath", "-o", "bin/", "./cmd/rdmalink", "./test/cmd/vm"},
		{"build", "-trimpath", "-o", "bin/bench/", "./test/bench/guest"},
	}
	for _, dir := range []string{"./test/bench/ring", "./test/bench/scale"} {
		if _, err := os.Stat(dir); err == nil {
			goes[1] = append(goes[1], dir)
		}
	}
	for _, args := range goes {
		if err := command(ctx, ".", []string{"CGO_ENABLED=0"}, "go", args...); err != nil {
			return err
		}
	}
	sources, err := filepath.Glob("test/bench/c/*.c")
	if err != nil {
		return err
	}
	for _, c := range sources {
		name := strings.TrimSuffix(filepath.Base(c), ".c")
		if err := command(ctx, ".", nil, "gcc", "-O2", "-Wall", "-o", "bin/bench/c-"+name, c, "-lrdmacm", "-libverbs", "-lpthread"); err != nil {
			return err
		}
	}
	if _, err := os.Stat("test/bench/cgo/go.mod"); err != nil {
		return nil
	}
	bin, err := filepath.Abs("bin/bench/cgo")
	if err != nil {
		return err
	}
	return command(ctx, "test/bench/cgo", []string{"CGO_ENABLED=1"}, "go", "build", "-trimpath", "-o", bin, ".")
}

// command runs a program with its output on standard error.
func command(ctx context.Context, dir string, env []string, argv0 string, args ...string) error {
	cmd := exec.CommandContext(ctx, argv0, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}
