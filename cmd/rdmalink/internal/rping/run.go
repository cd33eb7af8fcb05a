// Package rping pings a peer over RDMA, as librdmacm's rping does, which may be the
// other end.
package rping

import (
	"context"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// Details is the help text.
const Details = `
The client fills a buffer. The server reads it with RDMA READ and writes it back
with RDMA WRITE. Short messages synchronize the two.

  -s        server: serve one client, until it disconnects
  -c        client
  -a ADDR   server: the address to listen on (default all, IPv4 and IPv6; 0.0.0.0
            or :: for one family). Client: the server's address or name
  -I ADDR   client: the local address to connect from
  -p PORT   port (default 7174)
  -C COUNT  client: number of pings (default 0, no limit). Server: fail if the
            client sends fewer
  -S SIZE   client: bytes in a ping, 23 to 65535 (default 64). The server accepts
            any size
  -v        print the ping data
  -V        client: compare the data that is returned with the data sent
  -P        server: serve any number of clients, 256 at a time, about half of them
            of one address, until interrupted
  -q        create the queue pair and change its states with separate calls,
            instead of with Dial and Accept; the peer sees no difference
  -d        print each step to standard error
  --poll    poll for completions (default: sleep until an event)
  -j, --json
            instead of ping data, print one line of JSON with the result at
            the end of each connection

The server drops a client that does not complete its handshake within 10 seconds.

After an interrupt, the client finishes the current ping and disconnects. The exit
code is 0 after COUNT pings, after the client disconnected in order, or after an
interrupt without -C. It is 1 after a failure, and 2 for an invalid command line.`

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
