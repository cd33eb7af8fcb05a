package rsocket

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
)

// Dialer connects with options. The zero value is valid. [Dial] uses it. Its methods may be
// called concurrently, but its fields must not be changed meanwhile.
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
	c, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (d *Dialer) dial(ctx context.Context, network, address string) (*Conn, error) {
	fail := func(remote netip.AddrPort, err error) error { return opError("dial", d.LocalAddr, remote, err) }
	cfg, err := d.Config.withDefaults()
	if err != nil {
		return nil, fail(netip.AddrPort{}, err)
	}
	one := func(ctx context.Context, addr netip.AddrPort) (*Conn, error) { return d.dialAddr(ctx, addr, &cfg) }
	return netconn.Connect(ctx, &netconn.Dial{Protocol: protocol, Timeout: d.Timeout, FallbackDelay: d.FallbackDelay, Resolver: d.Resolver, Fail: fail},
		network, address, one)
}

func (d *Dialer) dialAddr(ctx context.Context, addr netip.AddrPort, cfg *Config) (*Conn, error) {
	c := newConn()
	cm := rdmacm.Dialer{LocalAddr: d.LocalAddr, AckTimeout: ackTimeout, Config: cfg.rdmacm(func(rc *rdmacm.Conn) error {
		if err := c.verbs.prepare(rc, cfg); err != nil {
			return err
		}
		rc.SetPrivateData(c.verbs.hello(cfg).marshal())
		return nil
	})}
	rc, err := cm.Dial(ctx, addr.String())
	if err != nil {
		return nil, err
	}
	peer, err := parseHello(rc.PrivateData())
	if err != nil {
		_ = rc.Close()
		return nil, err
	}
	c.begin(rc, peer, cfg, true)
	return c, nil
}
