package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // the kernel, the network or a peer said no
	exitUsage  = 2 // the command line makes no sense
)

// tool is what a command works with: its streams, the options given, and the
// kernel it speaks to.
type tool struct {
	cli.Output
	host.Machine
	stdin io.Reader

	help, version, oneline, raw, force, keepNetdev, selftest bool

	batch   string // the file that holds the commands, or "-"
	svg     string // the file that a drawing goes to
	inBatch bool   // this is one of its lines
}

// run is the program without its process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	t := &tool{Output: cli.Output{Stdout: stdout, Stderr: stderr}, Machine: host.This(), stdin: stdin}
	return t.run(ctx, args)
}

func (t *tool) run(ctx context.Context, args []string) int {
	if err := t.dispatch(ctx, root(), nil, &words{list: args}); err != nil {
		return t.report(err)
	}
	return exitOK
}

// report prints an error, and tells the exit code that goes with it.
func (t *tool) report(err error) int {
	var code cli.ExitCode
	if errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintf(t.Stderr, "rdmalink: %s\n", cli.Plain(err))
	if errors.As(err, new(cli.UsageError)) {
		return exitUsage
	}
	return exitFailed
}
