package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
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

// connectTries bounds how many source ports of the kernel's choice a dial tries.
const connectTries = 16

// connect asks the peer and waits for its answer. The connection manager chooses a
// source port without a look at the host's TCP sockets. On iWARP, where the
// connection is one of TCP, the port may still be in TIME_WAIT towards that peer
// or belong to another program; then another port is tried. A port of the caller's
// choice is the caller's to change.
func (c *Conn) connect(ctx context.Context, dst netip.AddrPort, cfg *Config) (*Event, error) {
	for n := 1; ; n++ {
		err := c.id.Connect(ctx, cfg.param(c.announced))
		if err == nil {
			ev, err := c.await(ctx, EventEstablished)
			return ev, c.explainAnswer(err)
		}
		if n == connectTries || cfg.Source.Port() != 0 || !c.id.isIWARP() || !isPortTaken(err) {
			return nil, err
		}
		if err := c.takeAnotherPort(ctx, dst, cfg); err != nil {
			return nil, err
		}
	}
}

// earlyPeer explains what siw makes of an answer with more data right behind it. It
// can't tell that from an answer that is wrong.
const earlyPeer = "the peer's answer is not valid, or data came right behind it: on iWARP the side that dials has to send first"

// explainAnswer treats an event's errno as the command's.
func (c *Conn) explainAnswer(err error) error {
	if errno, ok := err.(syscall.Errno); ok && c.id.isIWARP() {
		return hinted("connect", c.id, errno, map[syscall.Errno]string{syscall.EINVAL: earlyPeer})
	}
	return err
}

func isPortTaken(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EADDRINUSE)
}

// takeAnotherPort gives c a new ID, since the port of one is fixed. The queue pair
// stays: the caller has prepared it.
func (c *Conn) takeAnotherPort(ctx context.Context, dst netip.AddrPort, cfg *Config) error {
	c.id.DetachQP()
	if err := c.id.Destroy(); err != nil {
		return err
	}
	if err := c.resolve(ctx, dst, cfg); err != nil {
		return err
	}
	if err := c.sameDevice(c); err != nil {
		return err
	}
	return c.id.AttachQP(c.qp)
}

// use makes id the Conn's, in place of one that is destroyed.
func (c *Conn) use(id *ID) {
	if c.id == nil {
		c.link.add(freeing(func() error { return c.id.Destroy() }))
	}
	c.id = id
}

// lookup understands what package net does.
func lookup(ctx context.Context, resolver *net.Resolver, address string) ([]netip.AddrPort, error) {
	if addr, err := netip.ParseAddrPort(address); err == nil {
		return []netip.AddrPort{addr}, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := resolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return addrs, nil
}

// loopbackSource finds an address to dial the loopback address dst from: one
// of an interface that has an RDMA link and the loopback flag, so that the
// device is known before the kernel's own loopback path, which asks siw for a
// P_Key that it hasn't got. None is no error: the kernel then decides.
func loopbackSource(dst netip.Addr) netip.AddrPort {
	for _, ifi := range rdmaInterfaces() {
		if ifi.Flags&net.FlagLoopback == 0 {
			continue
		}
		addrs, err := ifi.Addrs()
		if err != nil {
			continue
		}
		if ip := pickSource(dst, addrs); ip.IsValid() {
			return netip.AddrPortFrom(ip, 0)
		}
	}
	return netip.AddrPort{}
}

// rdmaInterfaces are the network interfaces with an RDMA link on them.
func rdmaInterfaces() []*net.Interface {
	var nl netlinkrdma.Client
	devs, err := nl.Devices()
	if err != nil {
		return nil
	}
	var found []*net.Interface
	for _, dev := range devs {
		ports, err := nl.Ports(dev.Index)
		if err != nil {
			continue
		}
		for _, port := range ports {
			if ifi, err := net.InterfaceByIndex(int(port.NetdevIndex)); err == nil {
				found = append(found, ifi)
			}
		}
	}
	return found
}

func pickSource(dst netip.Addr, addrs []net.Addr) netip.Addr {
	for _, addr := range addrs {
		prefix, ok := addr.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(prefix.IP)
		if ip = ip.Unmap(); ok && ip.Is4() == dst.Unmap().Is4() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			return ip
		}
	}
	return netip.Addr{}
}
