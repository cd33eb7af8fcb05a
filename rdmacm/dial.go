package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/kernel"
)

// Dial connects to an address such as "10.0.0.1:7471", "[fe80::1%eth0]:7471" or
// "host:7471". It tries a name's addresses in turn. Where they are of both families, it
// tries those of the other family beside the first one's after Config.FallbackDelay,
// and takes the connection that stands first. An error is an [OpError] that names the
// address and the step that failed, one for each address that was tried.
//
// Dial returns as soon as ctx ends, with an error that matches ctx.Err(). Its
// objects are then freed in the background, which on iWARP can take 10
// seconds; a test for leaked goroutines has to wait that long. An iWARP connect in
// the kernel is interrupted by SIGWINCH: where the program ignores that signal
// (signal.Ignore) Dial returns only when the kernel gives up, after two minutes at
// most.
//
// With Config.QP.Type UD it looks up a datagram service instead and returns a
// Conn that has a [Conn.Peer].
//
// A loopback address without Config.Source is dialled from an address outside
// 127/8 of the loopback interface if an RDMA link lies on that: the kernel's
// own choice does not work over siw.
func Dial(ctx context.Context, address string, cfg *Config) (*Conn, error) {
	settings := cfg.withDefaults()
	addrs, err := lookup(ctx, settings.Resolver, address)
	if err != nil {
		return nil, &OpError{Op: "dial", Object: address, Err: err}
	}
	dial := func(ctx context.Context, addr netip.AddrPort) (*Conn, error) { return DialAddrPort(ctx, addr, cfg) }
	return dialer.Soonest(ctx, addrs, settings.FallbackDelay, dial)
}

// DialAddrPort is Dial for an address that is known already.
func DialAddrPort(ctx context.Context, addr netip.AddrPort, cfg *Config) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, attemptError("dial", addr, err)
	}
	if err := cfg.check("dial", addr.String()); err != nil {
		return nil, err
	}
	h, err := dialHubs.join(kernel.Owner(addr.Addr()))
	if err != nil {
		return nil, err
	}
	c := newConn(h)
	c.link.add(freeing(h.release))
	settings := cfg.withDefaults()
	returned := false
	defer c.freeUnless(&returned)
	err = c.dial(ctx, addr, &settings)
	if returned = true; err != nil {
		return nil, attemptError("dial", addr, c.abandon(ctx, err))
	}
	return c, nil
}

// abandon frees c after a failed attempt and says why it failed. The kernel
// lets no iWARP connection go before the peer's answer, or the 10 seconds it
// waits for that; a cancelled caller shall not wait with it.
func (c *Conn) abandon(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		go c.Close()
		return err
	}
	if closeErr := c.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	return err
}

// attemptError puts the peer's address where so far only an ID was named.
func attemptError(op string, peer netip.AddrPort, err error) error {
	if inner, ok := err.(*OpError); ok {
		return &OpError{Op: op + ": " + inner.Op, Object: peer.String(), Err: inner.Err, Hint: inner.Hint}
	}
	return &OpError{Op: op, Object: peer.String(), Err: err}
}

// during names the step in which an error came that does not say so itself: the
// end of a context, or the status of an event.
func during(step string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*OpError); ok {
		return err
	}
	return &OpError{Op: step, Err: err}
}

func (c *Conn) dial(ctx context.Context, dst netip.AddrPort, cfg *Config) error {
	if err := c.resolve(ctx, dst, cfg); err != nil {
		return err
	}
	if err := c.prepare(cfg); err != nil {
		return err
	}
	ev, err := c.connect(ctx, dst, cfg)
	if err != nil {
		return during("connect", err)
	}
	c.privateData = ev.Param.PrivateData
	c.connected()
	if err := c.lookAround(); err != nil {
		return err
	}
	if c.id.datagram {
		return c.meet(ev)
	}
	return during("prove the connection", c.settle(ctx, ev))
}

// resolve finds the device and the way to dst.
func (c *Conn) resolve(ctx context.Context, dst netip.AddrPort, cfg *Config) error {
	id, err := c.hub.newID(c, cfg.portSpace())
	if err != nil {
		return err
	}
	c.use(id)
	if err := cfg.setOptions(id); err != nil {
		return err
	}
	src := cfg.Source
	if own := kernel.Source(ctx, dst.Addr()); !src.IsValid() && own.IsValid() {
		src = netip.AddrPortFrom(own, 0)
	}
	if !src.IsValid() && dst.Addr().IsLoopback() && c.hub.kernel == kernel.Running {
		src = loopbackSource(dst.Addr())
	}
	err = c.try(ctx, EventAddrResolved, func(timeout time.Duration) error {
		return id.ResolveAddr(src, dst, timeout)
	}, cfg.ResolveTimeout)
	if err != nil {
		return explain("resolve address", dst, err)
	}
	err = c.try(ctx, EventRouteResolved, id.ResolveRoute, cfg.ResolveTimeout)
	return explain("resolve route", dst, err)
}

// explain treats an event's errno as the command's.
func explain(op string, dst netip.AddrPort, err error) error {
	if errno, ok := err.(syscall.Errno); ok {
		return resolveError(op, dst, errno)
	}
	return during(op, err)
}

// try repeats what timed out.
func (c *Conn) try(ctx context.Context, want EventType, step func(time.Duration) error, timeout time.Duration) error {
	for n := 1; ; n++ {
		err := step(timeout)
		if err == nil {
			_, err = c.await(ctx, want)
		}
		if err == nil || n == resolveTries || !errors.Is(err, syscall.ETIMEDOUT) {
			return err
		}
	}
}
