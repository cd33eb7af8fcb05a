package netconn

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
)

// Dial is a dial to a name.
type Dial[C net.Conn] struct {
	Network       string // the protocol's name
	Timeout       time.Duration
	LocalAddr     netip.AddrPort
	Resolver      *net.Resolver
	FallbackDelay time.Duration // zero stands for dialer.DefaultDelay

	// One dials one address.
	One func(context.Context, netip.AddrPort) (C, error)
}

// Dial looks up a name and dials its addresses. It returns the connection that is established first. Errors are of type
// *net.OpError.
func (d *Dial[C]) Dial(ctx context.Context, network, address string) (c C, err error) {
	if d.Timeout < 0 || d.FallbackDelay < 0 {
		return c, d.fail(netip.AddrPort{}, fmt.Errorf("Dialer.Timeout or Dialer.FallbackDelay is negative: %w", dialer.ErrOption))
	}
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	addrs, err := resolve(ctx, d.Resolver, d.Network, network, address)
	if err != nil {
		return c, d.fail(netip.AddrPort{}, err)
	}
	c, err = dialer.Retry(ctx, dialer.OfError, func(ctx context.Context) (C, error) { return d.Soonest(ctx, addrs) })
	if _, ok := err.(*net.OpError); err != nil && !ok { // ctx ended between two attempts
		err = d.fail(netip.AddrPort{}, err)
	}
	return c, err
}

// Soonest dials the addresses of a name, and returns the connection that is established first.
func (d *Dial[C]) Soonest(ctx context.Context, addrs []netip.AddrPort) (C, error) {
	try := func(ctx context.Context, addr netip.AddrPort) (C, error) {
		c, err := d.One(ctx, addr)
		if err != nil {
			return c, d.fail(addr, err)
		}
		return c, nil
	}
	if len(addrs) == 1 {
		return try(ctx, addrs[0])
	}
	delay := d.FallbackDelay
	if delay == 0 {
		delay = dialer.DefaultDelay
	}
	c, err := dialer.Soonest(ctx, addrs, delay, try)
	if err != nil {
		return c, d.fail(netip.AddrPort{}, err)
	}
	return c, nil
}

func (d *Dial[C]) fail(remote netip.AddrPort, err error) error {
	return OpError(d.Network, "dial", d.LocalAddr, remote, err)
}

// AsNetConn returns a nil interface in place of a nil connection.
func AsNetConn[C net.Conn](c C, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}
