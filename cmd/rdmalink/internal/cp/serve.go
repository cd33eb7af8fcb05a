package cp

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// serve takes files from any number of clients until ctx is over.
func (c *command) serve(ctx context.Context, l net.Listener, root *os.Root) error {
	return cli.AcceptAll(ctx, l, c.clients,
		func(ctx context.Context, conn net.Conn) { c.client(ctx, conn, root) },
		func(err error) { c.complain("%s", cli.PlainLine(err)) })
}

// client serves one of them.
func (c *command) client(ctx context.Context, conn net.Conn, root *os.Root) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	r := &receiver{command: c, conn: c.patient(conn), root: root}
	err := r.run()
	if ctx.Err() != nil && errors.Is(err, net.ErrClosed) {
		return // the user's wish, or the listener failed, which has been said
	}
	if err != nil {
		c.complain("%q from %s: %s", r.name, conn.RemoteAddr(), cli.PlainLine(err))
	}
}

// print prints the result of a file.
func (c *command) print(r *copied) {
	c.printing.Lock()
	defer c.printing.Unlock()
	if c.JSON {
		_ = c.WriteJSON(r)
		return
	}
	way := "to"
	if c.file == "" {
		way = "from"
	}
	_ = c.Printf("%q %s %s: %d bytes in %.2f seconds = %.2f Gb/sec, sha256 %s\n",
		r.Name, way, r.Peer, r.Bytes, r.Seconds, float64(r.Bytes)*8/1e9/r.Seconds, r.SHA256)
}

func (c *command) complain(format string, args ...any) {
	c.printing.Lock()
	defer c.printing.Unlock()
	c.Note(format, args...)
}
