package oob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// Dial connects a queue pair to one of the peer, which calls [Accept] with the other end of the stream. If the peer
// dials, too, one of the two becomes the accepting side. The stream belongs to the Conn from now on. It must carry
// nothing else, and is closed if Dial fails. When the stream ends, the connection ends. ctx and Config.Timeout bound
// the attempt; ctx does not affect the connection.
//
// When Dial returns, both ends have posted the receives of their Config.Prepare, and this end may send.
func Dial(ctx context.Context, rw io.ReadWriteCloser, cfg *Config) (*Conn, error) {
	return attempt(ctx, rw, cfg, "dial", (*Conn).dial)
}

// Accept waits for the peer's [Dial] on the other end of the stream, and connects a queue pair to the peer's. The same
// rules apply to the stream. The queue pair is created once the peer's message has arrived and Config.Authorize has
// returned. A server that accepts many streams uses a [Listener].
//
// When Accept returns, the peer has posted its receives, and this end may send.
func Accept(ctx context.Context, rw io.ReadWriteCloser, cfg *Config) (*Conn, error) {
	return attempt(ctx, rw, cfg, "accept", (*Conn).accept)
}

// attempt is one attempt to connect over a stream.
func attempt(ctx context.Context, rw io.ReadWriteCloser, cfg *Config, op string, try func(*Conn, context.Context, *Config) error) (*Conn, error) {
	if rw == nil {
		return nil, failed(op, "", "", fmt.Errorf("the stream is nil: %w", syscall.EINVAL))
	}
	if err := cfg.Check(); err != nil {
		return nil, failed(op, "", "", errors.Join(err, rw.Close()))
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(cfg.Timeout, defaultTimeout))
	defer cancel()
	c := newConn(cfg)
	c.stream = newStream(rw)
	c.stream.listen = c.listen
	returned := false
	defer func() {
		if !returned { // a panic or runtime.Goexit in a function of the caller
			_ = c.Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = rw.Close() })
	err := try(c, ctx, cfg)
	if returned = true; !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		c.establish()
		close(c.stream.up)
		return c, nil
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	c.stream.leave(&frame{kind: kindRefuse, reason: reason(err)})
	if failure := c.Close(); failure != nil && !errors.Is(failure, net.ErrClosed) {
		err = errors.Join(err, failure)
	}
	return nil, cfg.failed(op, err)
}

// reason returns what the peer learns of an error.
func reason(err error) string {
	if errors.As(err, new(conn.Unauthorized)) {
		return "not authorized"
	}
	return err.Error()
}

func (c *Conn) dial(ctx context.Context, cfg *Config) error {
	if err := c.offer(cfg); err != nil {
		return err
	}
	sent := make(chan error, 1)
	offer := c.machine.offer(c.local)
	go func() { sent <- c.stream.send(offer) }() // the peer may dial, too, on a stream without room
	a, err := actNothing, error(nil)
	for a == actNothing && err == nil {
		a, err = c.next(ctx)
	}
	if err != nil {
		return err
	}
	if err := cmp.Or(<-sent, c.join(ctx, cfg)); err != nil {
		return err
	}
	if a == actConnect {
		return c.stream.send(c.machine.ready())
	}
	return c.finish(ctx)
}

func (c *Conn) accept(ctx context.Context, cfg *Config) error {
	if _, err := c.next(ctx); err != nil {
		return err
	}
	if err := c.authorize(ctx, cfg); err != nil {
		return err
	}
	if err := c.meet(cfg); err != nil {
		return err
	}
	return c.finish(ctx)
}

// finish answers, and waits until the peer is ready.
func (c *Conn) finish(ctx context.Context) error {
	if err := c.stream.send(c.machine.answer(c.local)); err != nil {
		return err
	}
	_, err := c.next(ctx)
	return err
}

// next handles the next message.
func (c *Conn) next(ctx context.Context) (action, error) {
	var err error
	select {
	case h := <-c.stream.heard:
		if err = h.err; err == nil {
			return c.machine.receive(h.frame)
		}
	case <-c.stream.left: // a program that has received a message already may have closed the Conn
		err = net.ErrClosed
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // its end closes the stream
		err = fmt.Errorf("the peer should have sent %s: %w", c.machine.due(), ctx.Err())
	}
	return actNothing, err
}

// listen handles what comes after the set-up.
func (c *Conn) listen(h heard) {
	err := h.err
	if err == nil {
		_, err = c.machine.receive(h.frame)
	}
	c.gone(cmp.Or(err, rdmacm.ErrDisconnected), err == nil)
}

// offer makes everything that an offer needs.
func (c *Conn) offer(cfg *Config) error {
	if err := c.locate(cfg, nil); err != nil {
		return err
	}
	return c.prepare(cfg)
}

func (c *Conn) authorize(ctx context.Context, cfg *Config) error {
	if cfg.Authorize == nil {
		return nil
	}
	var rw io.ReadWriteCloser
	if c.stream != nil {
		rw = c.stream.ReadWriteCloser
	}
	if err := cfg.Authorize(ctx, rw, &c.machine.peer); err != nil {
		return conn.Unauthorized{Err: err}
	}
	return ctx.Err()
}

// join connects the queue pair of an offer.
func (c *Conn) join(ctx context.Context, cfg *Config) error {
	if err := c.authorize(ctx, cfg); err != nil {
		return err
	}
	return c.connect(cfg, &c.machine.peer)
}

// meet creates and connects the queue pair of an answer.
func (c *Conn) meet(cfg *Config) error {
	peer := &c.machine.peer
	c.remote = *peer // for Config.PrepareQP
	if err := c.locate(cfg, peer); err != nil {
		if errors.Is(err, verbs.ErrNoGID) {
			return fmt.Errorf("%w: the peer's GID %v is of type %v: %w", ErrMismatch, peer.GID, peer.GIDType, err)
		}
		return err
	}
	if err := c.local.fits(peer); err != nil {
		return err
	}
	if err := c.prepare(cfg); err != nil {
		return err
	}
	return c.connect(cfg, peer)
}

// Half is a queue pair that waits for the peer's answer.
type Half struct {
	mu    sync.Mutex
	c     *Conn // nil after Connect or Close
	cfg   *Config
	offer []byte
}

// Offer creates a queue pair and describes it in bytes, which are for one peer. They may travel in any way: in the
// header of an HTTP request, in JSON, through etcd. The peer passes them to [Answer], and the answer goes to
// [Half.Connect]. A program that waits for an answer bounds the time itself, and closes the Half if none comes.
//
// Whoever can read or change these bytes may read and write the memory that the connection gives access to. So protect
// the path that they take.
func Offer(cfg *Config) (*Half, error) {
	if err := cfg.Check(); err != nil {
		return nil, failed("offer", "", "", err)
	}
	c := newConn(cfg)
	if err := c.offer(cfg); err != nil {
		return nil, cfg.failed("offer", errors.Join(err, c.Close()))
	}
	return &Half{c: c, cfg: cfg, offer: c.machine.offer(c.local).bytes()}, nil
}

// Bytes returns the offer, which is for one peer.
func (h *Half) Bytes() []byte { return h.offer }

// Connect connects the queue pair to that of the answer. This end may then send. The peer may send once it knows that,
// by the first message or by other means. The Conn has no stream, so only the queue pair itself can report that the
// peer has gone. If the program learns of it by other means, it calls [Conn.Disconnect]. Only an answer to this offer
// is accepted, once. After an error the queue pair is closed.
func (h *Half) Connect(answer []byte) (*Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.c
	if c == nil {
		return nil, failed("connect", "Half", "", net.ErrClosed)
	}
	f, err := parse(answer)
	if err == nil && f.kind != kindAnswer {
		err = violation("%v, but it should have sent an answer", f.kind)
	}
	if err == nil {
		_, err = c.machine.receive(f)
	}
	if err == nil {
		err = c.join(context.Background(), h.cfg)
	}
	h.c = nil
	if err != nil {
		return nil, h.cfg.failed("connect", errors.Join(err, c.Close()))
	}
	c.establish()
	return c, nil
}

// Format implements [fmt.Formatter]. It prints the address of this end.
func (h *Half) Format(f fmt.State, _ rune) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.c == nil {
		fmt.Fprint(f, "oob half, closed")
		return
	}
	fmt.Fprintf(f, "oob half at %v", h.c.local.GID)
}

// Close frees the queue pair, unless Connect has been called. A second Close returns an error that matches
// net.ErrClosed.
func (h *Half) Close() error {
	if h == nil {
		return failed("close", "Half", "", os.ErrInvalid)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.c == nil {
		return failed("close", "Half", "", net.ErrClosed)
	}
	c := h.c
	h.c = nil
	return c.Close()
}

// Answer creates a queue pair, connects it to that of the offer, and returns the bytes for the peer's [Half.Connect].
// This end must not send before it knows that the peer has connected: by the peer's first message, or by other means.
// The Conn has no stream: see Half.Connect. A server bounds the time and the number of the Conns that have heard
// nothing of their peers yet. ctx is Config.Authorize's.
func Answer(ctx context.Context, offer []byte, cfg *Config) (*Conn, []byte, error) {
	if err := cfg.Check(); err != nil {
		return nil, nil, failed("answer", "", "", err)
	}
	f, err := parse(offer)
	c := newConn(cfg)
	if err == nil {
		_, err = c.machine.receive(f)
	}
	if err == nil {
		err = c.authorize(ctx, cfg)
	}
	if err == nil {
		err = c.meet(cfg)
	}
	if err != nil {
		return nil, nil, cfg.failed("answer", errors.Join(err, c.Close()))
	}
	c.establish()
	return c, c.machine.answer(c.local).bytes(), nil
}
