package dump

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command dump.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"dump"},
		Args:    "[OPTIONS] [FILE]",
		Summary: "print RoCE and iWARP packets from a capture or a network device",
		Details: Details(),
		Raw:     true,
		Run: cli.Program(func(ctx context.Context, t *cli.Tool, args []string) error {
			return Run(ctx, t.Output, t.Stdin, args)
		}),
	}
}
