package main

import (
	"context"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/dump"
)

func dumpCommand() command {
	return command{
		names:   []string{"dump"},
		args:    "[OPTIONS] [FILE]",
		summary: "print RoCE v2 and iWARP as they are on the wire, from a capture or a network device",
		details: dump.Details(),
		raw:     true,
		run:     runDump,
	}
}

func runDump(ctx context.Context, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return writeHelp(t.Stdout, []command{root(), dumpCommand()})
	}
	return dump.Run(ctx, t.Output, t.stdin, args)
}
