package main

import (
	"context"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/sandbox"
)

func sandboxCommand() command {
	return command{
		names:   []string{"sandbox"},
		args:    "[OPTIONS] -- CMD [ARG...]",
		summary: "run a command, whatever it is made of, on RDMA devices in software",
		details: sandbox.Details(),
		raw:     true,
		run:     runSandbox,
	}
}

// runSandbox looks for -h in front of the command, which may have one of its own.
func runSandbox(ctx context.Context, t *tool, w *words) error {
	args := w.rest()
	own := args
	if i := slices.Index(args, "--"); i >= 0 {
		own = args[:i]
	}
	if slices.Contains(own, "-h") || slices.Contains(own, "--help") {
		return writeHelp(t.Stdout, []command{root(), sandboxCommand()})
	}
	return sandbox.Run(ctx, t.Output, args)
}
