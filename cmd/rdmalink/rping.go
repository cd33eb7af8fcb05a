package main

import (
	"context"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/rping"
)

func rpingCommand() command {
	return command{
		names:   []string{"rping"},
		args:    "-s|-c [OPTIONS]",
		summary: "ping a peer over RDMA; speaks with librdmacm's rping",
		details: rping.Details,
		raw:     true,
		run:     runRping,
	}
}

func runRping(ctx context.Context, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return writeHelp(t.Stdout, []command{root(), rpingCommand()})
	}
	return rping.Run(ctx, t.Output, args)
}
