package main

import (
	"context"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/ping"
)

func pingCommand() command {
	return command{
		names:   []string{"ping"},
		args:    "[OPTIONS] HOST",
		summary: "say whether a host is reached over RDMA, and how soon it answers; the other end is an rping server",
		details: ping.Details(),
		raw:     true,
		run:     runPing,
	}
}

func runPing(ctx context.Context, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return writeHelp(t.Stdout, []command{root(), pingCommand()})
	}
	return ping.Run(ctx, t.Output, args)
}
