//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// verdict is the result of the tests of a mutant.
type verdict string

const (
	noticed verdict = "noticed"
	lived   verdict = "lived"
	broken  verdict = "does not compile"
)

// A test that a mutant makes hang is stopped after this time and has noticed.
const testTimeout = "3m"

// judge tests mutants. The go command puts a mutant's file in the place of the one in
// the tree, which stays as it is.
type judge struct {
	own   bool                // leave the dependents out
	dir   string              // for the changed files
	users map[string][]string // dependents of a package, as far as they were asked for
}

// try runs the tests of the package, and when they pass those of its dependents.
func (j *judge) try(ctx context.Context, m mutant) (verdict, error) {
	overlay, err := j.overlay(m)
	if err != nil {
		return "", err
	}
	v, err := test(ctx, overlay, "./"+m.pkg)
	if err != nil || v != lived || j.own {
		return v, err
	}
	users, err := j.usersOf(m.pkg)
	if err != nil || len(users) == 0 {
		return lived, err
	}
	return test(ctx, overlay, users...)
}

func (j *judge) usersOf(pkg string) ([]string, error) {
	if users, ok := j.users[pkg]; ok {
		return users, nil
	}
	users, err := dependents(pkg)
	j.users[pkg] = users
	return users, err
}

// overlay writes the changed file and the go command's overlay file.
func (j *judge) overlay(m mutant) (string, error) {
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(j.dir, "mutant.go"), filepath.Join(j.dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(changed, m.source(), 0o666), os.WriteFile(overlay, replace, 0o666))
}

func test(ctx context.Context, overlay string, pkgs ...string) (verdict, error) {
	out, err := run(ctx, overlay, append([]string{"-vet=off", "-failfast", "-timeout=" + testTimeout}, pkgs...)...)
	switch exit := (*exec.ExitError)(nil); {
	case err == nil:
		return lived, nil
	case !errors.As(err, &exit) || ctx.Err() != nil:
		return "", fmt.Errorf("%w\n%s", err, out)
	case bytes.Contains(out, []byte("[build failed]")):
		return broken, nil
	}
	return noticed, nil
}

// run is go test. It hands the overlay on in the environment, because some tests run the go command
// themselves. Interrupting takes the tests along.
func run(ctx context.Context, overlay string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	cmd.Env = append(os.Environ(), "CI=", strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}
