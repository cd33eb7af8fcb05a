// Package cp copies files over RDMA, as librdmacm's rcopy does.
package cp

import (
	"context"
	"os"
	"sync"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rsocket"
)

// Details returns the help text.
func Details() string {
	return `
  server$ rdmalink cp
  client$ rdmalink cp FILE 10.0.0.1

Without words it takes files into the current directory. With FILE and HOST it sends
a file; NAME is what it is called there, by default the last part of FILE. The other
end may be librdmacm's rcopy. An IPv6 address stands in brackets: [fd00::1]:NAME.

` + table.Help() + `
Both ends print the number of bytes, the rate, and the SHA-256 of the content; that
they are the same is for you to compare, as rcopy sends none. On a terminal a bar
shows how far it is.

Anybody who reaches the port may send files: rcopy knows no passwords. A client can
replace files in the directory and below it, and nothing else: a name that leads
out, also by a symbolic link, is refused, where C's rcopy writes to any path. A file
is replaced when all of its content is there. Files get the permissions of FILE that
the umask leaves.

A client that is idle, or whose upload brings less than 256 KiB in the time of -t, is
disconnected; what it had uploaded of a file, which stood beside the file under a name
that begins with .rdmalink-, is removed. So at most as many such files exist as
clients are served.

The server goes on until an interrupt. The exit code is 0 when the file was sent, or
after an interrupt of the server; 1 after a failure; 2 for a command line that makes
no sense.`
}

// command is one run.
type command struct {
	cli.Output
	options
	printing sync.Mutex
}

// Run is the command.
func Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	c := &command{Output: out, options: o}
	if o.file != "" {
		return c.sendFile(ctx)
	}
	root, err := os.OpenRoot(".")
	if err != nil {
		return err
	}
	defer root.Close()
	var lc rsocket.ListenConfig
	l, err := lc.Listen(ctx, "rsocket", ":"+o.port)
	if err != nil {
		return err
	}
	return c.serve(ctx, l, root)
}
