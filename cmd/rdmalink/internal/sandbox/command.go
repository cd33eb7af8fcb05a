package sandbox

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command sandbox.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"sandbox"},
		Args:    "[OPTIONS] -- CMD [ARG...]",
		Summary: "run a command, in any language, on RDMA devices in software",
		Details: Details(),
		Raw:     true,
		Run: cli.Program(func(ctx context.Context, t *cli.Tool, args []string) error {
			return Run(ctx, t.Output, args)
		}),
	}
}
