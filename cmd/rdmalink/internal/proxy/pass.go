package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
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
	defer in.Close() // after printing the result: a client that sees the end may stop the proxy
	start := time.Now()
	r := passed{Client: in.RemoteAddr().String(), Listen: p.from.String(), Connect: p.to.String()}
	err := p.join(ctx, in, &r)
	if ctx.Err() != nil {
		err = nil // the user's wish
	}
	if r.Seconds = time.Since(start).Seconds(); err != nil {
		r.Error = cli.Plain(err)
	}
	p.print(&r)
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
	return p.exchange(ctx, in, out, r)
}

// shutDown closes a connection. Over RDMA it waits until the data has been sent, because data
// in transit is lost when the proxy exits.
func shutDown(ctx context.Context, c net.Conn) error {
	if c, ok := c.(*rsocket.Conn); ok {
		return c.Shutdown(ctx)
	}
	return c.Close()
}

// drainLimit is the time that a connection with a failed direction may stay idle.
const drainLimit = 5 * time.Second

// pipe is a connection that is passed on: two directions that share a limit of time.
type pipe struct {
	mu    sync.Mutex
	quiet time.Duration // how long nothing may pass; 0: no limit
	timer *time.Timer
	err   error // the first failure
}

// exchange forwards data until both directions have ended. If one direction fails, the other
// one continues, because its data may explain the failure. It ends when nothing has passed
// for drainLimit.
func (p *proxy) exchange(ctx context.Context, in, out net.Conn, r *passed) error {
	x := &pipe{quiet: time.Duration(p.idle) * time.Second}
	expired := fmt.Errorf("nothing passed in %v", x.quiet)
	x.timer = time.AfterFunc(math.MaxInt64, func() {
		x.fail(expired)
		now := time.Now()
		_, _ = in.SetDeadline(now), out.SetDeadline(now) // a connection that is closed needs none
	})
	defer x.timer.Stop()
	x.moved()
	var both sync.WaitGroup
	both.Go(func() { x.carry(out, in, &r.Sent) })
	both.Go(func() { x.carry(in, out, &r.Got) })
	both.Wait()
	closed := errors.Join(shutDown(ctx, out), shutDown(ctx, in))
	if x.err != nil {
		return x.err
	}
	return closed
}

// carry passes one direction on, and its end.
func (x *pipe) carry(to, from net.Conn, n *int64) {
	w := &passing{pipe: x, to: to, n: n}
	_, err := io.Copy(w, from)
	if w.err != nil {
		// The destination no longer accepts data, but from is still read: from may be unable to read
		// before it has sent all of its own data, and closing a TCP connection with unread data
		// resets it, which destroys data in transit to the peer.
		x.fail(w.err)
		_, _ = io.Copy(io.Discard, from)
		return
	}
	closed := to.(interface{ CloseWrite() error }).CloseWrite()
	if err = errors.Join(err, closed); err != nil {
		x.fail(err)
	}
}

// fail notes the first failure, after which drainLimit holds.
func (x *pipe) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err, x.quiet = err, drainLimit
		x.timer.Reset(drainLimit)
	}
}

// moved starts the limit anew.
func (x *pipe) moved() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.quiet > 0 {
		x.timer.Reset(x.quiet)
	}
}

// passing is where one direction writes to. It counts, and keeps its own failures apart
// from those of reading.
type passing struct {
	*pipe
	to  io.Writer
	n   *int64
	err error
}

func (w *passing) Write(b []byte) (n int, err error) {
	n, w.err = w.to.Write(b)
	*w.n += int64(n)
	if n > 0 {
		w.moved()
	}
	return n, w.err
}

// print prints the result of a connection, if requested or if it failed.
func (p *proxy) print(r *passed) {
	p.printing.Lock()
	defer p.printing.Unlock()
	switch {
	case p.JSON:
		_ = p.WriteJSON(r)
	case r.Error != "":
		p.Note("%s from %s: %s", r.Connect, r.Client, strings.ReplaceAll(r.Error, "\n", "; "))
	case p.verbose:
		_ = p.Printf("%s to %s: %d bytes there, %d back, %.3f s\n", r.Client, r.Connect, r.Sent, r.Got, r.Seconds)
	}
}
