package perfcmd

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/perftest"
)

// Kind is one of perftest's programs.
type Kind struct {
	Verb    perftest.Verb
	Latency bool
}

// Program returns the program's name in perftest.
func (k Kind) Program() string {
	return perftest.Test{Verb: k.Verb, Latency: k.Latency}.String()
}

// Name returns lat or bw.
func (k Kind) Name() string {
	if k.Latency {
		return "lat"
	}
	return "bw"
}

// Details returns the help text.
func (k Kind) Details() string {
	return `
Without HOST, perf is the server of one client. With HOST, it is the client of the
server there. Both ends must have the same options.

` + k.options().Help() + `
` + k.units() + `

Without -x, a GID for RoCE v2 is used: that of the address that the TCP connection
uses, if the device has it, otherwise one of the same address family. iWARP needs -R.
EFA needs -c SRD or UD at both ends, and perftest needs -x 0 there, and -Q 1 with UD.
With -c DC both ends are initiator and target in a latency test and with -b; otherwise
the client is the initiator and the server the target.

The exit code is 0 if all messages were transferred, 1 after a failure, for example
if the peer exits, and 2 for an invalid command line.`
}

// units explains the units of the results.
func (k Kind) units() string {
	switch {
	case !k.Latency:
		return `MB is 2^20 bytes, Gb is 10^9 bits, and Mpps is a million messages per second. The
peak is the bandwidth of the fastest series of messages, with -b the sum of both
ends. It is 0.00 for more than 20000 messages.`
	case k.Verb == perftest.Send || k.Verb == perftest.Write:
		return `A latency is half the round-trip time. As in perftest, the two slowest samples are
left out, and t_max is the second of them.`
	}
	return `A latency is the time from posting to completion. As in perftest, the two slowest
samples are left out, and t_max is the second of them.`
}

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
