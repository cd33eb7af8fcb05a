//go:build linux

package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// command runs a program with its output on log; a failure names it.
func command(ctx context.Context, log io.Writer, dir string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	if err := cmd.Run(); err != nil {
		return explain(argv, err, "")
	}
	return nil
}

func output(ctx context.Context, argv ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", explain(argv, err, errs.String())
	}
	return out.String(), nil
}

func explain(argv []string, err error, text string) error {
	line := strings.Join(argv, " ")
	if len(line) > 200 {
		line = line[:200] + " …"
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s: not found: the test machine is set up with apt, on Debian 12: %w", argv[0], err)
	}
	return fmt.Errorf("%s: %w %s", line, err, strings.TrimSpace(text))
}
