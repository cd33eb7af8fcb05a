package trace

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command trace.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"trace"},
		Args:    "[OPTIONS] [--] PROGRAM [ARGUMENTS]",
		Summary: "run a program and print its requests to RDMA devices",
		Details: Details(),
		Raw:     true,
		Run: func(ctx context.Context, t *cli.Tool, w *cli.Words) error {
			return Run(ctx, t.Output, w.Rest())
		},
	}
}
