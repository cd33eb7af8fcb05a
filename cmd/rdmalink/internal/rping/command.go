package rping

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command rping.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"rping"},
		Args:    "-s|-c [OPTIONS]",
		Summary: "ping a peer over RDMA; interoperates with librdmacm's rping",
		Details: Details(),
		Raw:     true,
		Run: cli.Program(func(ctx context.Context, t *cli.Tool, args []string) error {
			return Run(ctx, t.Output, args)
		}),
	}
}
