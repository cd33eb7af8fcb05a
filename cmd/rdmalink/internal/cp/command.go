package cp

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command cp.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"cp"},
		Args:    "[OPTIONS] [FILE HOST[:NAME]]",
		Summary: "copy a file; the other end may be librdmacm's rcopy",
		Details: Details(),
		Raw:     true,
		Run: cli.Program(func(ctx context.Context, t *cli.Tool, args []string) error {
			return Run(ctx, t.Output, args)
		}),
	}
}
