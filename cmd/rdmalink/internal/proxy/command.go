package proxy

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command proxy.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"proxy"},
		Args:    "[OPTIONS] LISTEN CONNECT",
		Summary: "relay connections between TCP and RDMA; speaks librdmacm's rsocket protocol",
		Details: Details(),
		Raw:     true,
		Run: cli.Program(func(ctx context.Context, t *cli.Tool, args []string) error {
			return Run(ctx, t.Output, args)
		}),
	}
}
