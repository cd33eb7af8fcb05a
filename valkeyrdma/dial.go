package valkeyrdma

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
)

// Dialer holds options for connecting. The zero value has the defaults, with which [Dial] connects.
// Its methods may be called concurrently, but its fields must not be changed meanwhile. Timeout and
// FallbackDelay must not be negative.
type Dialer struct {
	// Config configures the connection.
	Config

	// Timeout limits the time of a dial, for all addresses of a name together. If it is zero, only
	// the context and the kernel limit the time.
	Timeout time.Duration

	// LocalAddr is the address to dial from. The zero value lets the routing table choose the
	// address. Port 0 lets the kernel choose the port.
	LocalAddr netip.AddrPort

	// Resolver looks up names. If it is nil, net.DefaultResolver is used.
	Resolver *net.Resolver

	// FallbackDelay is the time for which Dial tries the first address family of a name before it
	// also tries the other one. The default is 300 ms.
	FallbackDelay time.Duration
}

// Dial connects to an address with the default options. See [Dialer.Dial].
func Dial(ctx context.Context, address string) (*Conn, error) {
	return new(Dialer).Dial(ctx, address)
}

// Dial connects to an address such as "10.0.0.1:6379" or "host:6379". It tries the
// addresses of a name in turn. If there are addresses of both families, it starts to try the
// second family after FallbackDelay, or as soon as all addresses of the first one have failed. It
// returns the connection that is established first. ctx limits the dial. It does not affect the
// connection. Errors are of type *net.OpError.
func (d *Dialer) Dial(ctx context.Context, address string) (*Conn, error) {
	return d.dial(ctx, protocol, address)
}

// DialContext is like [Dialer.Dial], but has the signature of [net.Dialer.DialContext], which the
// options of clients need. network is "valkeyrdma" or "tcp". A "4" or "6" at its end restricts the
// address family. The connection is a *Conn.
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
		c = newConn(cfg)
		return c.prepare(rc)
	}
	rc, err := cm.Dial(ctx, addr.String())
	if err != nil {
		return nil, err
	}
	if err := c.begin(rc, true); err != nil {
		_ = rc.Close()
		return nil, err
	}
	return c, nil
}
