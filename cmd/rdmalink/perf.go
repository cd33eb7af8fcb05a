package main

import (
	"context"
	"fmt"
	"slices"

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
			sub.sub = append(sub.sub, perfKind{verb, latency}.command())
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

// perfKind is one of perftest's programs.
type perfKind struct {
	verb    perftest.Verb
	latency bool
}

// program is its name in perftest.
func (k perfKind) program() string {
	return perftest.Test{Verb: k.verb, Latency: k.latency}.String()
}

func (k perfKind) name() string {
	if k.latency {
		return "lat"
	}
	return "bw"
}

func (k perfKind) command() command {
	what := "bandwidth and message rate"
	if k.latency {
		what = "latency"
	}
	return command{
		names:   []string{k.name()},
		args:    "[OPTIONS] [HOST]",
		summary: fmt.Sprintf("%s; the other end may be %s", what, k.program()),
		details: k.details(),
		raw:     true,
		run:     func(ctx context.Context, t *tool, w *words) error { return k.run(ctx, t, w) },
	}
}

// details is what -h tells.
func (k perfKind) details() string {
	return `
Without HOST: serve one client. With it: the client of the server there. Options
must be the same at both ends.

` + k.options().Help() + `
` + k.units() + `

Without -x the GID is one for RoCE v2: that of the address which TCP uses, if the
device has it, else one of the same address family. iWARP needs -R.

The exit code is 0 after all messages; 1 after a failure, also if the peer goes
away; 2 for a command line that makes no sense.`
}

// units says what the figures are.
func (k perfKind) units() string {
	switch {
	case !k.latency:
		return `MB is 2^20 bytes, Gb is 10^9 bits, Mpps a million messages a second. The peak is
that of the fastest stretch of messages, with -b the sum of both ends'; it is looked
for up to 20000 messages and is 0.00 beyond.`
	case k.verb == perftest.Send || k.verb == perftest.Write:
		return `A latency is half of the time there and back. As in perftest the two slowest are
left out, and t_max is the second of them.`
	}
	return `A latency is the time from posting to completion. As in perftest the two slowest
are left out, and t_max is the second of them.`
}

func (k perfKind) run(ctx context.Context, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		verb := command{names: []string{k.verb.String()}}
		return writeHelp(t.Stdout, []command{root(), perfCommand(), verb, k.command()})
	}
	return k.measure(ctx, t.Output, args)
}
