package main

import (
	"context"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cm"
)

func cmCommand() command {
	c := command{
		names:   []string{"cm"},
		summary: "test connection management; speaks with librdmacm's ucmatose and its kin",
	}
	for _, p := range cm.Programs {
		c.sub = append(c.sub, cmProgram(p))
	}
	return c
}

func cmProgram(p *cm.Program) command {
	return command{
		names:   []string{p.Name},
		args:    p.Args,
		summary: p.Summary,
		details: p.Details(),
		raw:     true,
		run:     func(ctx context.Context, t *tool, w *words) error { return runCM(ctx, p, t, w) },
	}
}

func runCM(ctx context.Context, p *cm.Program, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return writeHelp(t.Stdout, []command{root(), cmCommand(), cmProgram(p)})
	}
	return p.Run(ctx, t.Output, args)
}
