package pingpong

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Command returns the command pingpong, with a sub-command for each of C's programs.
func Command() cli.Command {
	c := cli.Command{
		Names:   []string{"pingpong"},
		Summary: "exchange messages without a connection manager; interoperates with ibv_rc_pingpong and its relatives",
	}
	for _, k := range Kinds {
		c.Sub = append(c.Sub, cli.Command{
			Names:   []string{k.Name},
			Args:    "[OPTIONS] [HOST]",
			Summary: fmt.Sprintf("%s; the other end may be ibv_%s_pingpong", k.Summary, k.Name),
			Details: k.Details(),
			Raw:     true,
			Run: cli.Program(func(ctx context.Context, t *cli.Tool, args []string) error {
				return k.Run(ctx, t.Output, args)
			}),
		})
	}
	return c
}
