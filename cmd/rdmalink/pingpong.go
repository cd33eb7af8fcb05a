package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/pingpong"
)

func pingpongCommand() command {
	c := command{
		names:   []string{"pingpong"},
		summary: "pass messages to and fro without a connection manager; speaks with ibv_rc_pingpong and its kin",
	}
	for _, k := range pingpong.Kinds {
		c.sub = append(c.sub, pingpongKind(k))
	}
	return c
}

func pingpongKind(k *pingpong.Kind) command {
	return command{
		names:   []string{k.Name},
		args:    "[OPTIONS] [HOST]",
		summary: fmt.Sprintf("%s; the other end may be ibv_%s_pingpong", k.Summary, k.Name),
		details: k.Details(),
		raw:     true,
		run:     func(ctx context.Context, t *tool, w *words) error { return runPingpong(ctx, k, t, w) },
	}
}

func runPingpong(ctx context.Context, k *pingpong.Kind, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return writeHelp(t.Stdout, []command{root(), pingpongCommand(), pingpongKind(k)})
	}
	return k.Run(ctx, t.Output, args)
}
