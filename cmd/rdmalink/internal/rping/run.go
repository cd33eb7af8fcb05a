// Package rping pings a peer over RDMA, as librdmacm's rping does, which may be the
// other end.
package rping

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Details returns the help text.
func Details() string {
	return `
The client fills a buffer. The server reads it with RDMA READ and writes it back
with RDMA WRITE. Short messages synchronize the two.

` + table.Help() + `
With -a 0.0.0.0 or ::, the server listens on one address family. With -P, it serves 256
clients at a time, about half of them of one address.

The server drops a client that does not complete its handshake within 10 seconds.

After an interrupt, the client finishes the current ping and disconnects. The exit
code is 0 after N pings with -C, after the client disconnected in order, or after an
interrupt without -C. It is 1 after a failure, and 2 for an invalid command line.`
}

// Run runs rping with a command line.
func Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	r := &session{Output: out, options: o}
	if o.server {
		return r.serve(ctx)
	}
	return r.ping(ctx)
}

// session is one run of the command.
type session struct {
	cli.Output
	options
}

func (r *session) newEnd(client bool, size int) *end {
	e := &end{client: client, poll: r.poll, size: size, debug: silent}
	if r.debug {
		e.debug = r.Note
	}
	return e
}

func silent(string, ...any) {}
