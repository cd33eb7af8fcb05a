package main

import (
	"context"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cp"
)

func cpCommand() command {
	return command{
		names:   []string{"cp"},
		args:    "[OPTIONS] [FILE HOST[:NAME]]",
		summary: "copy a file; the other end may be librdmacm's rcopy",
		details: cp.Details(),
		raw:     true,
		run:     runCp,
	}
}

func runCp(ctx context.Context, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return writeHelp(t.Stdout, []command{root(), cpCommand()})
	}
	return cp.Run(ctx, t.Output, args)
}
