package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
)

// Exit codes of rdmalink.
const (
	ExitOK     = 0
	ExitFailed = 1 // the kernel, the network or a peer refused
	ExitUsage  = 2 // the command line is invalid
)

// Tool holds the environment of a command: its streams, the options that were
// given, and the machine that it runs on.
type Tool struct {
	Output
	host.Machine
	Stdin io.Reader

	Raw     bool // -r
	Oneline bool // -o

	help, version, force bool

	given   map[string]string // the values of options that only their command knows, by long name
	batch   string            // the file that holds the commands, or "-"
	inBatch bool              // the command is a line of that file
	root    Command           // the table of commands
	path    []Command         // from the root to the command that runs
}

// Run runs the command that args name in the table below root, prints its
// error if it fails, and returns the exit code.
func (t *Tool) Run(ctx context.Context, root Command, args []string) int {
	t.root = root
	if err := t.dispatch(ctx, root, nil, &Words{list: args}); err != nil {
		return t.report(err)
	}
	return ExitOK
}

// Option returns the value of an option of the command, and whether it was given.
func (t *Tool) Option(long string) (value string, given bool) {
	value, given = t.given[long]
	return value, given
}

// report prints an error and returns the matching exit code.
func (t *Tool) report(err error) int {
	var code ExitCode
	if errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintf(t.Stderr, "rdmalink: %s\n", Plain(err))
	if errors.As(err, new(UsageError)) {
		return ExitUsage
	}
	return ExitFailed
}
