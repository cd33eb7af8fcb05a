//go:build linux

package main

import (
	"errors"
	"fmt"
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// packages are those whose tests are put to the test.
var packages = []string{
	"verbs", "uverbs", "internal/driver", "rdmacm", "provider/rxe", "provider/siw", "netlinkrdma", "internal/ioctl", "internal/kernel", "internal/wait", "internal/conn", "mmap",
}

// sources are the Go files of a package that this system compiles, without tests.
func sources(pkg string) ([]string, error) {
	p, err := build.ImportDir(pkg, 0)
	if err != nil {
		return nil, err
	}
	for i, name := range p.GoFiles {
		p.GoFiles[i] = filepath.Join(pkg, name)
	}
	return p.GoFiles, nil
}

// dependents are the packages with tests that use a package, or whose tests do,
// without itself.
func dependents(pkg string) ([]string, error) {
	out, err := output("list", "-test", "-f", `{{if .ForTest}}{{.ForTest}} {{join .Deps " "}}{{end}}`, "./...")
	if err != nil {
		return nil, err
	}
	module, err := output("list", "-m")
	if err != nil {
		return nil, err
	}
	path := strings.TrimSpace(module) + "/" + pkg
	var users []string
	for line := range strings.Lines(out) {
		if names := strings.Fields(line); len(names) > 0 && names[0] != path && slices.Contains(plain(names[1:]), path) {
			users = append(users, names[0])
		}
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}

// plain leaves out for whose tests a package was compiled: "uverbs [rdmacm.test]".
func plain(names []string) []string {
	return slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "[") })
}

func output(args ...string) (string, error) {
	out, err := exec.Command("go", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return string(out), err
}

// isTop reports whether the working directory is the top of a module.
func isTop() bool {
	_, err := os.Stat("go.mod")
	return err == nil
}
