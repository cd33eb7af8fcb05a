package perfcmd

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/perftest"
)

// Command returns the command perf, with a sub-command for each verb and, below it, one
// for each of perftest's programs.
func Command() cli.Command {
	c := cli.Command{
		Names:   []string{"perf"},
		Summary: "measure latency and bandwidth; interoperates with perftest's ib_send_lat and its relatives",
	}
	for verb := perftest.Send; verb <= perftest.Atomic; verb++ {
		sub := cli.Command{Names: []string{verb.String()}, Summary: summaries[verb]}
		for _, latency := range []bool{true, false} {
			sub.Sub = append(sub.Sub, Kind{Verb: verb, Latency: latency}.command())
		}
		c.Sub = append(c.Sub, sub)
	}
	return c
}

var summaries = map[perftest.Verb]string{
	perftest.Send:   "SEND to a receive that the peer has posted",
	perftest.Write:  "RDMA WRITE to the peer's memory",
	perftest.Read:   "RDMA READ of the peer's memory",
	perftest.Atomic: "FETCH_AND_ADD or CMP_AND_SWAP on the peer's memory",
}

func (k Kind) command() cli.Command {
	measured := "bandwidth and message rate"
	if k.Latency {
		measured = "latency"
	}
	return cli.Command{
		Names:   []string{k.Name()},
		Args:    "[OPTIONS] [HOST]",
		Summary: fmt.Sprintf("%s; the other end may be %s", measured, k.Program()),
		Details: k.Details(),
		Raw:     true,
		Run: cli.Program(func(ctx context.Context, t *cli.Tool, args []string) error {
			return k.Run(ctx, t.Output, args)
		}),
	}
}
