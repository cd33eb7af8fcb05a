package ping

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command ping.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"ping"},
		Args:    "[OPTIONS] HOST",
		Summary: "check whether a host is reachable over RDMA, and measure the round-trip time; the other end is an rping server",
		Details: Details(),
		Raw:     true,
		Run: cli.Program(func(ctx context.Context, t *cli.Tool, args []string) error {
			return Run(ctx, t.Output, args)
		}),
	}
}
