package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	_ "github.com/goverbs/goverbs/provider/all"
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

// details is what -h tells, with the options from the table of the parser.
func (k *pingpongKind) details() string {
	var b strings.Builder
	b.WriteString(`
Without HOST: serve one client. With it: the client of the server there. The two
tell each other their addresses over TCP, and then pass one message to and fro.

`)
	b.WriteString(k.options().help())
	b.WriteString(`
Without -g the GID is one for RoCE v2: that of the address which TCP uses, if the
device has it, else one of the same address family. C needs its -g on RoCE. C's
-j (device memory) is JSON here; C's -t, -N, -O and -U there are not.

An interrupt ends either side. The exit code is 0 after all exchanges; 1 after a
failure, also if -c finds wrong data; 2 for a command line that makes no sense.`)
	return b.String()
}

func (k *pingpongKind) run(ctx context.Context, t *tool, w *words) error {
	if left := w.list[w.pos:]; slices.Contains(left, "-h") || slices.Contains(left, "--help") {
		return writeHelp(t.stdout, []command{root(), pingpongCommand(), k.command()})
	}
	o, err := parsePingpong(k, w)
	if err != nil {
		return err
	}
	t.json = t.json || o.asJSON
	p := &pingpong{tool: t, kind: k, pingpongOptions: o}
	return p.run(ctx)
}

// pingpong is one run of the command.
type pingpong struct {
	*tool
	pingpongOptions
	kind *pingpongKind
}
