package netconn

import (
	"context"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
)

// Dial is a dial to a name.
type Dial struct {
	Protocol      string // the name of the network
	Timeout       time.Duration
	FallbackDelay time.Duration // zero stands for dialer.DefaultDelay
	Resolver      *net.Resolver
	// Fail returns the error of one address, or of the name if the address is the zero value.
	Fail func(remote netip.AddrPort, err error) error
}

// Connect looks up a name and dials its addresses with one. It returns the connection that is established first.
func Connect[C io.Closer](ctx context.Context, d *Dial, network, address string, one func(context.Context, netip.AddrPort) (C, error)) (c C, err error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	addrs, err := resolve(ctx, d.Resolver, d.Protocol, network, address)
	if err != nil {
		return c, d.Fail(netip.AddrPort{}, err)
	}
	return Soonest(ctx, d, addrs, one)
}

// Soonest dials the addresses of a name, and returns the connection that is established first.
func Soonest[C io.Closer](ctx context.Context, d *Dial, addrs []netip.AddrPort, one func(context.Context, netip.AddrPort) (C, error)) (C, error) {
	try := func(ctx context.Context, addr netip.AddrPort) (C, error) {
		c, err := one(ctx, addr)
		if err != nil {
			return c, d.Fail(addr, err)
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
		return c, d.Fail(netip.AddrPort{}, err)
	}
	return c, nil
}
