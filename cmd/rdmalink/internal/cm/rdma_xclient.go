package cm

import (
	"context"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/verbs"
)

// typeRow has the queue pair's type for XRC: one sends, the other one receives.
func typeRow(xrc verbs.QPType) row {
	return cli.NewRow('c', "type", "TYPE", "r for a reliable connection (default); x for XRC, which neither siw nor rxe has", func(o *options, value string) error {
		switch {
		case value != "" && strings.ContainsAny(value[:1], "rR"):
			o.portSpace, o.qpType = 0, 0
		case value != "" && strings.ContainsAny(value[:1], "xX"):
			o.portSpace, o.qpType = verbs.PortSpaceIB, xrc
		default:
			return cli.Expected(value, "r", "x")
		}
		return nil
	})
}

var rdmaXClient = &Program{
	Name: "rdma_xclient", Args: "[OPTIONS]",
	Summary: "send a message of 16 bytes; the other end may be rdma_xserver",
	text: `
The client disconnects first, when its message has arrived.

---
`,
	table:    cli.Options(onceServerRow, portRow("where the server listens (default 7471)"), typeRow(verbs.QPTypeXRCInitiator), jsonRow),
	defaults: onceDefaults,
	run: func(ctx context.Context, s *session) error {
		if s.qpType != 0 {
			return overXRC(ctx, s, (*xrc).send)
		}
		return ask(ctx, s, (*once).onlySend)
	},
}

var rdmaXServer = &Program{
	Name: "rdma_xserver", Args: "[OPTIONS]",
	Summary: "serve one client: get a message of 16 bytes; the other end may be rdma_xclient",
	text: `
The client disconnects first, when its message has arrived.

---
`,
	table:    cli.Options(portRow("to listen on (default 7471)"), typeRow(verbs.QPTypeXRCTarget), jsonRow),
	defaults: options{port: 7471},
	run: func(ctx context.Context, s *session) error {
		if s.qpType != 0 {
			return overXRC(ctx, s, (*xrc).receive)
		}
		return serve(ctx, s, (*once).onlyReceive)
	},
}

func (o *once) onlySend(ctx context.Context) error {
	start := time.Now()
	if err := o.send(ctx); err != nil {
		return err
	}
	return o.reportMessages(start, 1, 0)
}

func (o *once) onlyReceive(ctx context.Context) error {
	start := time.Now()
	if err := o.receive(ctx); err != nil {
		return err
	}
	o.left(ctx)
	return o.reportMessages(start, 0, 1)
}
