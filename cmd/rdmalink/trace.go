package main

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/trace"
)

func traceCommand() command {
	return command{
		names:   []string{"trace"},
		args:    "[OPTIONS] [--] PROGRAM [ARGUMENTS]",
		summary: "run a program and print what it asks of RDMA devices, in words",
		details: trace.Details(),
		raw:     true,
		run: func(ctx context.Context, t *tool, w *words) error {
			return trace.Run(ctx, t.Output, w.rest())
		},
	}
}
