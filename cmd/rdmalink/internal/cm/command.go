package cm

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command cm, with a sub-command for each program.
func Command() cli.Command {
	c := cli.Command{
		Names:   []string{"cm"},
		Summary: "test connection management; interoperates with librdmacm's ucmatose and its relatives",
	}
	for _, p := range Programs {
		c.Sub = append(c.Sub, cli.Command{
			Names:   []string{p.Name},
			Args:    p.Args,
			Summary: p.Summary,
			Details: p.Details(),
			Raw:     true,
			Run: cli.Program(func(ctx context.Context, t *cli.Tool, args []string) error {
				return p.Run(ctx, t.Output, args)
			}),
		})
	}
	return c
}
