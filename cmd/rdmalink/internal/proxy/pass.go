package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rsocket"
)

// passed is how a connection went, as -j prints it.
type passed struct {
	Client  string  `json:"client"`
	Listen  string  `json:"listen"`
	Connect string  `json:"connect"`
	Sent    int64   `json:"sent_bytes"`     // from the client
	Got     int64   `json:"received_bytes"` // by the client
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// pass connects, and passes data on until both directions have ended.
func (p *proxy) pass(ctx context.Context, in net.Conn) {
	defer in.Close() // when it is told why: the client that sees the end may stop the proxy
	start := time.Now()
	r := passed{Client: in.RemoteAddr().String(), Listen: p.from.String(), Connect: p.to.String()}
	err := p.join(ctx, in, &r)
	if ctx.Err() != nil {
		err = nil // the user's wish
	}
	if r.Seconds = time.Since(start).Seconds(); err != nil {
		r.Error = cli.Plain(err)
	}
	p.tell(&r)
}

func (p *proxy) join(ctx context.Context, in net.Conn, r *passed) error {
	dialling, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	out, err := p.to.dial(dialling)
	if err != nil {
		return err
	}
	defer out.Close()
	defer context.AfterFunc(ctx, func() { in.Close(); out.Close() })()
	there, back := make(chan error, 1), make(chan error, 1)
	go func() { there <- carry(out, in, &r.Sent) }()
	go func() { back <- carry(in, out, &r.Got) }()
	if err := errors.Join(<-there, <-back); err != nil {
		return err
	}
	return errors.Join(shutDown(ctx, out), shutDown(ctx, in))
}

// shutDown closes a connection. Over RDMA it waits until the data has left: what is under way
// when the proxy exits is lost.
func shutDown(ctx context.Context, c net.Conn) error {
	if c, ok := c.(*rsocket.Conn); ok {
		return c.Shutdown(ctx)
	}
	return c.Close()
}

// carry passes one direction on, and its end. When it fails the other direction ends too.
func carry(to, from net.Conn, n *int64) (err error) {
	if *n, err = io.Copy(to, from); err == nil {
		return to.(interface{ CloseWrite() error }).CloseWrite()
	}
	to.Close()
	from.Close()
	if errors.Is(err, net.ErrClosed) { // the other direction has said why
		return nil
	}
	return err
}

// tell prints how a connection went, if asked to or if it failed.
func (p *proxy) tell(r *passed) {
	p.printing.Lock()
	defer p.printing.Unlock()
	switch {
	case p.JSON:
		_ = p.WriteJSON(r)
	case r.Error != "":
		p.Note("%s from %s: %s", r.Connect, r.Client, strings.ReplaceAll(r.Error, "\n", "; "))
	case p.verbose:
		fmt.Fprintf(p.Stdout, "%s to %s: %d bytes there, %d back, %.3f s\n", r.Client, r.Connect, r.Sent, r.Got, r.Seconds)
	}
}
