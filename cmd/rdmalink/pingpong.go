package main

import (
	"context"
	"fmt"
	"slices"
)

func pingpongCommand() command {
	c := command{
		names:   []string{"pingpong"},
		summary: "pass messages to and fro without a connection manager; speaks with ibv_rc_pingpong and its kin",
	}
	for _, k := range pingpongKinds {
		c.sub = append(c.sub, k.command())
	}
	return c
}

func (k *pingpongKind) command() command {
	return command{
		names:   []string{k.name},
		args:    "[OPTIONS] [HOST]",
		summary: fmt.Sprintf("%s; the other end may be ibv_%s_pingpong", k.summary, k.name),
		details: k.details(),
		raw:     true,
		run:     func(ctx context.Context, t *tool, w *words) error { return k.run(ctx, t, w) },
	}
}

func (k *pingpongKind) run(ctx context.Context, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return writeHelp(t.Stdout, []command{root(), pingpongCommand(), k.command()})
	}
	return k.play(ctx, t.Output, args)
}
