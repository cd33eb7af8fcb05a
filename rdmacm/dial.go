package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

// Dialer connects with options. The zero value is valid. [Dial] uses it. Its methods may be
// called concurrently, but its fields must not be changed meanwhile.
//
// A duration of zero stands for a default, which the field's comment names. A negative
// one is an error.
type Dialer struct {
	// Config describes the queue pair. The other fields concern only the dial.
	Config

	// Timeout limits the time of a dial, for all addresses of a name together. Zero stands for
	// no bound besides those of the context and the kernel.
	Timeout time.Duration

	// LocalAddr is the address to dial from. If it is the zero value, the routing table
	// decides. With port 0 the kernel chooses the port.
	LocalAddr netip.AddrPort

	// Resolver looks up names. Nil stands for net.DefaultResolver.
	Resolver *net.Resolver

	// FallbackDelay is how long Dial waits for the first address family of a name
	// before it tries the other one too. Zero stands for 300 ms. Config.Prepare may then
	// be called for two connections at a time, of which Dial closes one.
	FallbackDelay time.Duration

	// ResolveTimeout limits the time of one attempt to resolve the address or the route. Dial
	// makes three attempts. Zero stands for 2 seconds.
	ResolveTimeout time.Duration
}

// The defaults.
const (
	defaultResolveTimeout = 2 * time.Second
	resolveTries          = 3
)

// Dial connects to an address with the defaults of [Dialer]. See [Dialer.Dial].
func Dial(ctx context.Context, address string) (*Conn, error) {
	return new(Dialer).Dial(ctx, address)
}

// Dial connects to an address such as "10.0.0.1:7471", "[fe80::1%eth0]:7471" or
// "host:7471". It tries the addresses of a name in turn. If there are addresses of both
// families, it starts on those of the other family after FallbackDelay, or as soon as those
// of the first family have failed. It returns the connection that is established first.
//
// An error is a [verbs.Error] that names the address and the step that failed. If several
// addresses were tried, the error joins one verbs.Error for each.
//
// Dial returns as soon as ctx ends, with a [verbs.Error] that matches ctx.Err(). It then frees
// its objects in the background, which takes up to 10 seconds on iWARP. A test that checks
// for leaked goroutines has to wait that long. On iWARP, Dial interrupts the kernel's
// connect with SIGWINCH. If the program ignores that signal (signal.Ignore), Dial returns
// only when the kernel gives up, after at most two minutes.
//
// If the peer rejects the connection because it is busy ([ErrBusy]), Dial pauses and tries again until
// ctx or Timeout ends, or for 10 seconds after the first rejection if neither has a deadline. It pauses
// for at most a second, with jitter. Config.Prepare is called for each attempt. A peer over iWARP that
// gives no reason may be a kernel whose queue is full, so Dial makes up to 6 attempts there, in a third of
// a second.
//
// With Config.QP.Type UD, Dial looks up a datagram service instead and returns a Conn that
// has a [Conn.Peer].
//
// A loopback address without LocalAddr is dialled from an address outside 127/8 of the
// loopback interface, if that interface has an RDMA link. The address that the kernel would
// choose does not work over siw.
func (d *Dialer) Dial(ctx context.Context, address string) (*Conn, error) {
	settings, err := d.withDefaults(address)
	if err != nil {
		return nil, err
	}
	if settings.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, settings.Timeout)
		defer cancel()
	}
	addrs, err := lookup(ctx, settings.Resolver, address)
	if err != nil {
		return nil, atAddress("dial", address, err)
	}
	c, err := dialer.Retry(ctx, patience, func(ctx context.Context) (*Conn, error) {
		return dialer.Soonest(ctx, addrs, settings.FallbackDelay, settings.dialAddr)
	})
	if _, ok := err.(*verbs.Error); err != nil && !ok && ctx.Err() != nil { // ctx ended between two attempts
		err = &verbs.Error{Op: "dial", Object: address, Err: err}
	}
	return c, err
}

// withDefaults returns a copy in which defaults replace zeros, or an error if a field is
// invalid.
func (d *Dialer) withDefaults(address string) (*Dialer, error) {
	const op = "dial"
	if err := d.Config.check(op, address); err != nil {
		return nil, err
	}
	if err := notNegative(op, address, option{"Dialer.Timeout", int64(d.Timeout)}, option{"Dialer.FallbackDelay", int64(d.FallbackDelay)},
		option{"Dialer.ResolveTimeout", int64(d.ResolveTimeout)}); err != nil {
		return nil, err
	}
	settings := *d
	settings.Config = d.Config.withDefaults()
	setDefault(&settings.Resolver, net.DefaultResolver)
	setDefault(&settings.FallbackDelay, dialer.DefaultDelay)
	setDefault(&settings.ResolveTimeout, defaultResolveTimeout)
	return &settings, nil
}

// setOptions sets the kernel's options of an ID. It must precede ResolveAddr.
func (d *Dialer) setOptions(id *ID) error {
	if d.TOS != 0 {
		if err := id.SetTOS(d.TOS); err != nil {
			return err
		}
	}
	if d.AckTimeout != 0 {
		return id.SetAckTimeout(d.AckTimeout)
	}
	return nil
}

// source returns the source address for a dial to dst. It is not valid if the kernel chooses it.
func (d *Dialer) source(ctx context.Context, dst netip.Addr) netip.AddrPort {
	if own := kernel.Source(ctx, dst); !d.LocalAddr.IsValid() && own.IsValid() {
		return netip.AddrPortFrom(own, 0)
	}
	return d.LocalAddr
}

// dialAddr connects to one address. d has its defaults.
func (d *Dialer) dialAddr(ctx context.Context, addr netip.AddrPort) (c *Conn, err error) {
	if err := ctx.Err(); err != nil {
		return nil, attemptError("dial", addr, err)
	}
	at := addr.Addr()
	if src := d.source(ctx, at); src.IsValid() && !src.Addr().IsUnspecified() {
		at = src.Addr()
	}
	h, err := dialHubs.join(kernel.Owner(at))
	if err != nil {
		return nil, err
	}
	d.Trace.dialStart(addr)
	defer func() { d.Trace.dialDone(addr, err) }()
	c = newConn(h)
	c.link.Add(conn.Freeing(h.release))
	returned := false
	defer c.freeUnless(&returned)
	err = c.dial(ctx, addr, d)
	if returned = true; err != nil {
		return nil, attemptError("dial", addr, c.abandon(ctx, err))
	}
	return c, nil
}

// abandon frees c after a failed attempt and returns the error. The kernel holds on to an iWARP
// connection until the peer has answered, or for 10 seconds. If ctx has ended, abandon therefore
// frees c in the background.
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

// attemptError names the peer's address instead of the ID.
func attemptError(op string, peer netip.AddrPort, err error) error {
	e := dialer.Within(op, peer.String(), err)
	if inner, ok := e.Err.(*verbs.Error); ok && strings.HasPrefix(inner.Object, idPrefix) {
		inner.Object = e.Object
	}
	return e
}

// during adds the failed step to an error that does not name one, such as a context's error or the
// status of an event.
func during(step string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(*verbs.Error); ok {
		return err
	}
	return &verbs.Error{Op: step, Err: err}
}

func (c *Conn) dial(ctx context.Context, dst netip.AddrPort, d *Dialer) error {
	if err := c.resolve(ctx, dst, d); err != nil {
		return err
	}
	if err := c.prepare(&d.Config); err != nil {
		return err
	}
	ev, err := c.connect(ctx, dst, d)
	if err != nil {
		return during("connect", err)
	}
	c.privateData = ev.Param.PrivateData
	// The kernel reports the number of READs that this side may issue as ResponderResources.
	c.depth = ev.Param.ResponderResources
	c.connected()
	if c.id.isIWARP() { // only now are the addresses those of the TCP connection
		if err := c.refreshAddrs(); err != nil {
			return err
		}
	}
	if c.id.datagram {
		return c.resolvePeer(ev)
	}
	if err := c.proveIfNeeded(ctx); err != nil {
		return during("prove the connection", err)
	}
	c.traceEnd(d.Trace)
	return nil
}

// resolve finds the device and the route to dst.
func (c *Conn) resolve(ctx context.Context, dst netip.AddrPort, d *Dialer) error {
	id, err := c.hub.newID(c, d.portSpace())
	if err != nil {
		return err
	}
	c.use(id)
	if err := d.setOptions(id); err != nil {
		return err
	}
	src := d.source(ctx, dst.Addr())
	if !src.IsValid() && dst.Addr().IsLoopback() && c.hub.kernel == kernel.Running {
		src = loopbackSource(dst.Addr())
	}
	err = c.try(ctx, EventAddrResolved, func(timeout time.Duration) error {
		return id.ResolveAddr(src, dst, timeout)
	}, d.ResolveTimeout)
	if err != nil {
		return explain("resolve address", dst, err)
	}
	d.Trace.addrResolved(dst)
	err = c.try(ctx, EventRouteResolved, id.ResolveRoute, d.ResolveTimeout)
	if err != nil {
		return explain("resolve route", dst, err)
	}
	d.Trace.routeResolved(dst)
	return nil
}

// explain adds the command's hints to an event's errno.
func explain(op string, dst netip.AddrPort, err error) error {
	if errno, ok := err.(syscall.Errno); ok {
		return resolveError(op, dst, errno)
	}
	return during(op, err)
}

// try repeats a step that timed out.
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

// connectTries is how many source ports, chosen by the kernel, a dial tries.
const connectTries = 16

// connect sends the connect request and waits for the answer. The connection manager chooses a
// source port without regard to the host's TCP sockets. On iWARP, which runs over TCP, the port may
// still be in TIME_WAIT towards that peer or belong to another program. connect then tries another
// port, unless the caller chose the port.
func (c *Conn) connect(ctx context.Context, dst netip.AddrPort, d *Dialer) (*Event, error) {
	for n := 1; ; n++ {
		err := c.id.Connect(ctx, d.param(c.announced))
		if err == nil {
			ev, err := c.await(ctx, EventEstablished)
			return ev, c.explainAnswer(err)
		}
		if n == connectTries || d.LocalAddr.Port() != 0 || !c.id.isIWARP() || !isPortTaken(err) {
			return nil, err
		}
		if err := c.takeAnotherPort(ctx, dst, d); err != nil {
			return nil, err
		}
	}
}

// earlyPeer explains the error of siw for an answer with more data right behind it. siw cannot
// distinguish that from an invalid answer.
const earlyPeer = "the peer's answer is not valid, or data followed it directly: on iWARP the dialing side must send first"

// noAnswer explains the error of a kernel that has waited for the answer to a connect request.
const noAnswer = "the peer's machine is gone, or its program is busy or does not call Accept"

// explainAnswer adds the command's hints to the errno of the answer's event.
func (c *Conn) explainAnswer(err error) error {
	errno, ok := err.(syscall.Errno)
	if !ok {
		return err
	}
	hints := map[syscall.Errno]string{syscall.ETIMEDOUT: noAnswer}
	if c.id.isIWARP() {
		hints[syscall.EINVAL] = earlyPeer
	}
	return hinted("connect", c.id, errno, hints)
}

func isPortTaken(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EADDRINUSE)
}

// takeAnotherPort gives c a new ID, because the port of an ID is fixed. The queue pair stays,
// because the caller has prepared it.
func (c *Conn) takeAnotherPort(ctx context.Context, dst netip.AddrPort, d *Dialer) error {
	c.id.DetachQP()
	if err := c.id.Close(); err != nil {
		return err
	}
	if err := c.resolve(ctx, dst, d); err != nil {
		return err
	}
	if err := c.sameDevice(c); err != nil {
		return err
	}
	return c.id.AttachQP(c.qp)
}

// use makes id the ID of the Conn. The previous ID, if any, must have been destroyed.
func (c *Conn) use(id *ID) {
	if c.id == nil {
		c.link.Add(conn.Freeing(func() error { return c.id.Close() }))
	}
	c.id = id
}

// atAddress returns the error of an operation at an address. It takes the address out of a cause that
// repeats it.
func atAddress(op, address string, err error) error {
	if e, ok := err.(*net.AddrError); ok && e.Addr == address {
		err = &net.AddrError{Err: e.Err}
	}
	return &verbs.Error{Op: op, Object: address, Err: err}
}

// lookup resolves an address in the form that package net uses.
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

// loopbackSource returns an address to dial the loopback address dst from: one of an interface that
// has an RDMA link and the loopback flag. With such a source the device is known, and the kernel
// does not take its own loopback path, which asks siw for a P_Key that siw does not have. Without
// such an interface, loopbackSource returns the zero value, and the kernel chooses the source.
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

// rdmaInterfaces returns the network interfaces that have an RDMA link.
func rdmaInterfaces() []*net.Interface {
	var s netlinkrdma.Socket
	defer s.Close()
	nl := netlinkrdma.Client{Kernel: &s}
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
