//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// build builds bin/rdmalink and everything in bin/bench: the Go programs, the C programs, of which each
// has one file, and the program of the cgo module.
func build(ctx context.Context) error {
	if err := os.MkdirAll("bin/bench", 0o777); err != nil {
		return err
	}
	programs, err := mains(ctx)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"build", "-trimpath", "-o", "bin/", "./cmd/rdmalink", "./test/cmd/vm"},
		append([]string{"build", "-trimpath", "-o", "bin/bench/"}, programs...),
	} {
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
		if err := command(ctx, ".", nil, "gcc", "-O2", "-Wall", "-o", "bin/bench/c-"+name, c, "-lrdmacm", "-libverbs", "-lmlx5", "-lpthread"); err != nil {
			return err
		}
	}
	bin, err := filepath.Abs("bin/bench/cgo")
	if err != nil {
		return err
	}
	return command(ctx, "test/bench/cgo", []string{"CGO_ENABLED=1"}, "go", "build", "-trimpath", "-o", bin, ".")
}

// mains returns the main packages below this one.
func mains(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./test/bench/...")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return slices.DeleteFunc(strings.Fields(string(text)), func(path string) bool { return strings.HasSuffix(path, "test/bench") }), nil
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
