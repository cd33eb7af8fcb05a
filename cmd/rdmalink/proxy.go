package main

import (
	"context"
	"slices"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/proxy"
)

func proxyCommand() command {
	return command{
		names:   []string{"proxy"},
		args:    "[OPTIONS] LISTEN CONNECT",
		summary: "pass connections on between TCP and RDMA; speaks librdmacm's rsocket",
		details: proxy.Details(),
		raw:     true,
		run:     runProxy,
	}
}

func runProxy(ctx context.Context, t *tool, w *words) error {
	args := w.rest()
	if slices.Contains(args, "-h") || slices.Contains(args, "--help") {
		return writeHelp(t.Stdout, []command{root(), proxyCommand()})
	}
	return proxy.Run(ctx, t.Output, args)
}
