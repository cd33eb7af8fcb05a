package rping

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// resolveLimit is the time for the kernel to resolve an address or a route.
const resolveLimit = 2 * time.Second

// ownParam is the set of parameters that either side sends the other.
func ownParam(c *ownConn) *rdmacm.ConnParam {
	return &rdmacm.ConnParam{QPNum: c.qp.Num(), ResponderResources: 1, InitiatorDepth: 1}
}

// dialOwn is dial without a Conn.
func (e *end) dialOwn(ctx context.Context, address string, source netip.AddrPort) error {
	dst, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err
	}
	to := netip.AddrPortFrom(dst.AddrPort().Addr().Unmap(), dst.AddrPort().Port())
	c, err := newOwnConn()
	if err != nil {
		return err
	}
	if err := c.dial(ctx, e, to, source); err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

func (c *ownConn) dial(ctx context.Context, e *end, dst, source netip.AddrPort) (err error) {
	if c.id, err = c.channel.NewID(verbs.PortSpaceTCP, 0); err != nil {
		return err
	}
	if err := c.id.ResolveAddr(source, dst, resolveLimit); err != nil {
		return err
	}
	if err := c.want(ctx, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := c.id.ResolveRoute(resolveLimit); err != nil {
		return err
	}
	if err := c.want(ctx, rdmacm.EventRouteResolved); err != nil {
		return err
	}
	if err := c.make(); err != nil {
		return err
	}
	if err := e.prepare(c); err != nil {
		return err
	}
	if err := c.id.Connect(ctx, ownParam(c)); err != nil {
		return err
	}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	c.established()
	return nil
}

// confirm waits for the server's answer and completes the connection.
func (c *ownConn) confirm(ctx context.Context) error {
	if c.iWARP() {
		return c.want(ctx, rdmacm.EventEstablished)
	}
	if err := c.want(ctx, rdmacm.EventConnectResponse); err != nil {
		return err
	}
	if err := c.move(verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS); err != nil {
		return err
	}
	return c.id.Establish()
}

// accept lets a client in.
func (c *ownConn) accept(ctx context.Context, e *end) error {
	if err := c.make(); err != nil {
		return err
	}
	if err := e.prepare(c); err != nil {
		return err
	}
	if !c.iWARP() {
		if err := c.move(verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS); err != nil {
			return err
		}
	}
	if err := c.id.Accept(ownParam(c)); err != nil {
		return err
	}
	if err := c.want(ctx, rdmacm.EventEstablished); err != nil {
		return err
	}
	c.established()
	return nil
}
