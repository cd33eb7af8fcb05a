package cm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// conn is one end of a connection: an ID, its queue pair and the objects of the queue pair.
type conn struct {
	channel *channel
	id      *rdmacm.ID
	events  chan *rdmacm.Event
	private []byte // the peer's private data, if the last event had any
	dev     *device
	qp      *uverbs.QP
	mr      *uverbs.MR // a message to receive, then one to send
	made    closers
}

// roomForEvents is more than an ID reports in its life.
const roomForEvents = 16

// newConn is the side that asks, with a queue pair of that type; 0 is that of the port space.
func (c *channel) newConn(ps verbs.PortSpace, typ verbs.QPType) (*conn, error) {
	id, err := c.NewID(ps, typ)
	if err != nil {
		return nil, err
	}
	return c.adopt(id), nil
}

// adopt returns a connection for an existing ID.
func (c *channel) adopt(id *rdmacm.ID) *conn {
	n := &conn{channel: c, id: id, events: make(chan *rdmacm.Event, roomForEvents)}
	c.add(n)
	return n
}

// await waits for the next event, which must be of the given type.
func (n *conn) await(ctx context.Context, want rdmacm.EventType) error {
	select {
	case ev := <-n.events:
		n.private = ev.Param.PrivateData
		return outcome(ev, want)
	case <-ctx.Done():
		return ctx.Err()
	case <-n.channel.stopped:
		return n.channel.err
	}
}

func outcome(ev *rdmacm.Event, want rdmacm.EventType) error {
	switch {
	case ev.Type == want && ev.Err == nil:
		return nil
	case ev.Type == rdmacm.EventDisconnected:
		return rdmacm.ErrDisconnected
	case ev.Err != nil:
		return ev.Err
	}
	return fmt.Errorf("%v came instead of %v", ev.Type, want)
}

// patience is the time for the kernel to resolve an address or a route.
const patience = 2 * time.Second

func (n *conn) resolveAddr(ctx context.Context, src netip.Addr, dst netip.AddrPort, limit time.Duration) error {
	from := netip.AddrPort{}
	if src.IsValid() {
		from = netip.AddrPortFrom(src, 0)
	}
	if err := n.id.ResolveAddr(from, dst, limit); err != nil {
		return err
	}
	return during("resolve "+dst.Addr().String(), n.await(ctx, rdmacm.EventAddrResolved))
}

func (n *conn) resolveRoute(ctx context.Context, limit time.Duration) error {
	if err := n.id.ResolveRoute(limit); err != nil {
		return err
	}
	return during("resolve the route", n.await(ctx, rdmacm.EventRouteResolved))
}

func (n *conn) connect(ctx context.Context, p *rdmacm.ConnParam) error {
	if err := n.id.Connect(ctx, p); err != nil {
		return err
	}
	return during("connect", n.await(ctx, rdmacm.EventEstablished))
}

func (n *conn) accept(ctx context.Context, p *rdmacm.ConnParam) error {
	if err := n.id.Accept(p); err != nil {
		return err
	}
	return during("wait for the peer's confirmation", n.await(ctx, rdmacm.EventEstablished))
}

// during adds the step to an error that an event reported.
func during(step string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s: %w", step, err)
}

// portTaken adds a hint to the error for a source port that a TCP connection of this host
// still uses. The connection manager does not check for that when it chooses a port.
func portTaken(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EADDRINUSE)
}

// close frees all. A peer that has not been disconnected from learns of it.
func (n *conn) close() error {
	n.id.DetachQP()
	err := n.made.close()
	if destroyed := n.id.Destroy(); !errors.Is(destroyed, verbs.ErrClosed) { // a Connect that was cancelled has
		err = errors.Join(err, destroyed)
	}
	n.channel.remove(n)
	return err
}
