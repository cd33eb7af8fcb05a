package rsocket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
)

// Dialer connects with options. The zero value is valid. [Dial] uses it. Its methods may be
// called concurrently, but its fields must not be changed meanwhile. Timeout and FallbackDelay must
// not be negative.
type Dialer struct {
	// Config describes the connection. The other fields concern only the dial.
	Config

	// Timeout limits the time of a dial, for all addresses of a name together. Zero stands
	// for no bound besides those of the context and the kernel.
	Timeout time.Duration

	// LocalAddr is the address to dial from. If it is the zero value, the routing table
	// decides. With port 0 the kernel chooses the port.
	LocalAddr netip.AddrPort

	// Resolver looks up names. Nil stands for net.DefaultResolver.
	Resolver *net.Resolver

	// FallbackDelay is how long Dial waits for the first address family of a name before
	// it tries the other one too. Zero stands for 300 ms.
	FallbackDelay time.Duration
}

// Dial connects to an address with the defaults of [Dialer]. See [Dialer.Dial].
func Dial(ctx context.Context, address string) (*Conn, error) {
	return new(Dialer).Dial(ctx, address)
}

// Dial connects to an address such as "10.0.0.1:7471" or "host:7471". It tries the
// addresses of a name in turn. If there are addresses of both families, it starts on those
// of the other family after FallbackDelay, or as soon as those of the first family have
// failed. It returns the connection that is established first. ctx bounds the dial, and does
// not affect the connection. Errors are of type *net.OpError.
func (d *Dialer) Dial(ctx context.Context, address string) (*Conn, error) {
	return d.dial(ctx, protocol, address)
}

// DialContext is like [Dialer.Dial], but has the signature of [net.Dialer.DialContext], so
// it can be used in an [net/http.Transport], for example. network is "rsocket" or "tcp",
// with a "4" or "6" behind it to restrict the address family. The connection is a *Conn.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return netconn.AsNetConn(d.dial(ctx, network, address))
}

func (d *Dialer) dial(ctx context.Context, network, address string) (*Conn, error) {
	cfg, err := d.Config.withDefaults()
	if err != nil {
		return nil, netconn.OpError(protocol, "dial", d.LocalAddr, netip.AddrPort{}, err)
	}
	dial := netconn.Dial[*Conn]{Network: protocol, Timeout: d.Timeout, LocalAddr: d.LocalAddr, Resolver: d.Resolver, FallbackDelay: d.FallbackDelay,
		One: func(ctx context.Context, addr netip.AddrPort) (*Conn, error) { return d.dialAddr(ctx, addr, &cfg) }}
	return dial.Dial(ctx, network, address)
}

func (d *Dialer) dialAddr(ctx context.Context, addr netip.AddrPort, cfg *Config) (*Conn, error) {
	var c *Conn // of the last attempt
	cm := rdmacm.Dialer{LocalAddr: d.LocalAddr, Config: cfg.rdmacm()}
	cm.Prepare = func(rc *rdmacm.Conn) error {
		c = newConn()
		return c.prepare(rc, cfg)
	}
	rc, err := cm.Dial(ctx, addr.String())
	if err != nil {
		return nil, err
	}
	return c.start(rc, cfg)
}

// start returns the connection that a dial has made.
func (c *Conn) start(rc conn.Conn, cfg *Config) (*Conn, error) {
	peer, err := parseHello(rc.PrivateData())
	if err != nil {
		_ = rc.Close()
		return nil, fmt.Errorf("%w: %w", rdmacm.ErrOtherProtocol, err)
	}
	c.begin(rc, peer, cfg, true)
	return c, nil
}

// DialOver connects to a [Listener] of [ListenConfig.ListenOver] over a stream that is connected to it, such as a TCP
// or TLS connection. It needs no connection manager. LocalAddr, Resolver and FallbackDelay have no meaning. over sets
// the protection domain, the device's port and the GID. DialOver ignores over's PrivateData, Prepare, PrepareQP, QP,
// RecvCQEntries and TransportOptions. The stream belongs to the connection. RetryCount must not be negative. ctx bounds
// the dial, and does not affect the connection. Errors are of type *net.OpError. See [oob.Dial].
func (d *Dialer) DialOver(ctx context.Context, stream io.ReadWriteCloser, over *oob.Config) (*Conn, error) {
	c, err := d.dialOver(ctx, stream, over)
	if err != nil {
		return nil, netconn.OpError(protocol, "dial", netip.AddrPort{}, netip.AddrPort{}, err)
	}
	return c, nil
}

func (d *Dialer) dialOver(ctx context.Context, stream io.ReadWriteCloser, over *oob.Config) (*Conn, error) {
	cfg, err := d.Config.withDefaults()
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	c, base := newConn(), cfg.oob(over)
	base.Timeout = cmp.Or(d.Timeout, base.Timeout)
	base.Prepare = func(oc *oob.Conn) error { return c.prepare(oc, &cfg) }
	oc, err := oob.Dial(ctx, stream, base)
	if err != nil {
		return nil, err
	}
	return c.start(oc, &cfg)
}
