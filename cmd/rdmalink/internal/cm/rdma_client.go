package cm

import (
	"context"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

var (
	onceServerRow = cli.NewRow('s', "server", "HOST", "the server's address or name (default 127.0.0.1)", serverRow.Set)
	onceListenRow = cli.NewRow('s', "server", "ADDR", "own address to listen on (default all)", bindRow.Set)
	onceDefaults  = options{server: "127.0.0.1", port: 7471}
)

var rdmaClient = &Program{
	Name: "rdma_client", Args: "[OPTIONS]",
	Summary: "send a message of 16 bytes and get one back; the other end may be rdma_server",
	text: `
The server disconnects first, when its message has arrived.

---
`,
	table:    cli.Options(onceServerRow, portRow("where the server listens (default 7471)"), jsonRow),
	defaults: onceDefaults,
	run:      func(ctx context.Context, s *session) error { return ask(ctx, s, (*once).first) },
}

var rdmaServer = &Program{
	Name: "rdma_server", Args: "[OPTIONS]",
	Summary: "serve one client: get a message of 16 bytes and send one back; the other end may be rdma_client",
	text: `
The server disconnects first, when its message has arrived.

---
`,
	table:    cli.Options(onceListenRow, portRow("to listen on (default 7471)"), jsonRow),
	defaults: options{port: 7471},
	run:      func(ctx context.Context, s *session) error { return serve(ctx, s, (*once).second) },
}

// first sends, and then receives.
func (o *once) first(ctx context.Context) error {
	start := time.Now()
	if err := o.send(ctx); err != nil {
		return err
	}
	if err := o.receive(ctx); err != nil {
		return err
	}
	o.left(ctx)
	return o.reportMessages(start, 1, 1)
}

// second receives, and then sends.
func (o *once) second(ctx context.Context) error {
	start := time.Now()
	if err := o.receive(ctx); err != nil {
		return err
	}
	if err := o.send(ctx); err != nil {
		return err
	}
	return o.reportMessages(start, 1, 1)
}
