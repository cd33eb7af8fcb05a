// Package exporter runs rdmalink-exporter, which is a program of its own: it links Prometheus's
// libraries, and rdmalink does not.
package exporter

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

const program = "rdmalink-exporter"

// Command returns the command exporter.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"exporter"},
		Args:    "[OPTIONS]",
		Summary: "export devices, counters, processes and events to Prometheus",
		Details: `
It runs the program rdmalink-exporter, which lies beside rdmalink or in PATH, with
these options; rdmalink-exporter -h lists them. make exporter builds the program.
docs/exporter.md has the metrics.`,
		Raw: true,
		Run: func(ctx context.Context, t *cli.Tool, w *cli.Words) error {
			name, err := find(os.Executable, exec.LookPath)
			if err != nil {
				return err
			}
			return run(ctx, t, name, w.Rest())
		},
	}
}

var errNoProgram = errors.New("there is no " + program + " beside rdmalink or in PATH (make exporter in the repository of goverbs builds bin/" + program + "; put it beside rdmalink)")

// find returns the path of the program.
func find(executable func() (string, error), lookPath func(string) (string, error)) (string, error) {
	if self, err := executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		if name, err := lookPath(filepath.Join(filepath.Dir(self), program)); err == nil {
			return name, nil
		}
	}
	if name, err := lookPath(program); err == nil {
		return name, nil
	}
	return "", errNoProgram
}

// stopTimeout is how long the program may take to end its scrapes after a signal.
const stopTimeout = 10 * time.Second

// run runs the program until ctx is done, and passes its exit code on.
func run(ctx context.Context, t *cli.Tool, name string, args []string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin, c.Stdout, c.Stderr = t.Stdin, t.Stdout, t.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = stopTimeout
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return cli.ExitCode(exit.ExitCode())
	}
	return err
}
