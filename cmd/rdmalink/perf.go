package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perfcmd"
	"github.com/goverbs/goverbs/internal/perftest"
)

func perfCommand() command {
	c := command{
		names:   []string{"perf"},
		summary: "measure latency and bandwidth; speaks with perftest's ib_send_lat and its kin",
	}
	for verb := perftest.Send; verb <= perftest.Atomic; verb++ {
		sub := command{names: []string{verb.String()}, summary: perfSummaries[verb]}
		for _, latency := range []bool{true, false} {
			sub.sub = append(sub.sub, perfKindCommand(perfcmd.Kind{Verb: verb, Latency: latency}))
		}
		c.sub = append(c.sub, sub)
	}
	return c
}

var perfSummaries = map[perftest.Verb]string{
	perftest.Send:   "messages, which the peer has receives for",
	perftest.Write:  "RDMA WRITE to the peer's memory",
	perftest.Read:   "RDMA READ of the peer's memory",
	perftest.Atomic: "FETCH_AND_ADD or CMP_AND_SWAP on the peer's memory",
}

func perfKindCommand(k perfcmd.Kind) command {
	what := "bandwidth and message rate"
	if k.Latency {
		what = "latency"
	}
	return command{
		names:   []string{k.Name()},
		args:    "[OPTIONS] [HOST]",
		summary: fmt.Sprintf("%s; the other end may be %s", what, k.Program()),
		details: k.Details(),
		raw:     true,
		run:     func(ctx context.Context, t *tool, w *words) error { return runPerf(ctx, k, t, w) },
	}
}

func runPerf(ctx context.Context, k perfcmd.Kind, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		verb := command{names: []string{k.Verb.String()}}
		return writeHelp(t.Stdout, []command{root(), perfCommand(), verb, perfKindCommand(k)})
	}
	return k.Run(ctx, t.Output, args)
}
