package main

import (
	"context"
	"slices"
)

func rpingCommand() command {
	return command{
		names:   []string{"rping"},
		args:    "-s|-c [OPTIONS]",
		summary: "ping a peer over RDMA; speaks with librdmacm's rping",
		details: rpingDetails,
		raw:     true,
		run:     rpingOrHelp,
	}
}

func rpingOrHelp(ctx context.Context, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return writeHelp(t.Stdout, []command{root(), rpingCommand()})
	}
	return runRping(ctx, t.Output, args)
}
