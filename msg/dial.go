package msg

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// Dialer connects with options. The zero value is valid. [Dial] uses it. Its methods may be
// called concurrently, but its fields must not be changed meanwhile. Timeout and FallbackDelay must
// not be negative.
type Dialer struct {
	// Config describes the connection. The other fields concern only the dial.
	Config

	// Timeout limits the time of a dial, for all addresses of a name together. Zero
	// stands for no bound besides those of the context and the kernel.
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

// Dial connects to a [Listener] with the defaults of [Dialer]. See [Dialer.Dial].
func Dial(ctx context.Context, address string) (*Conn, error) {
	return new(Dialer).Dial(ctx, address)
}

// Dial connects to a [Listener] at an address such as "10.0.0.1:7471" or "host:7471". ctx
// bounds the dial, and does not affect the connection. It handles names as
// [rdmacm.Dialer.Dial] does.
func (d *Dialer) Dial(ctx context.Context, address string) (*Conn, error) {
	s, err := d.Config.shape()
	if err != nil {
		return nil, failed("dial", err)
	}
	made := pendingConns{shape: s}
	dialer := rdmacm.Dialer{Config: *made.config(), Timeout: d.Timeout, LocalAddr: d.LocalAddr, Resolver: d.Resolver,
		FallbackDelay: d.FallbackDelay}
	cm, err := dialer.Dial(ctx, address)
	return made.begun(ctx, cm, err)
}

// DialOver connects to a [Listener] of [ListenConfig.ListenOver] over a stream that is connected to it, such as a TCP
// or TLS connection. It needs no connection manager. LocalAddr, Resolver and FallbackDelay have no meaning. over sets
// the protection domain, the device's port and the GID. With a pool, the protection domain is the pool's, and over may
// be nil. DialOver ignores over's PrivateData, Prepare, PrepareQP, QP, RecvCQEntries and TransportOptions. The stream
// belongs to the connection. RetryCount must not be negative. See [oob.Dial].
func (d *Dialer) DialOver(ctx context.Context, stream io.ReadWriteCloser, over *oob.Config) (*Conn, error) {
	s, err := d.Config.shape()
	if err != nil {
		return nil, failed("dial", errors.Join(err, stream.Close()))
	}
	made := pendingConns{shape: s}
	cfg := made.configOver(over)
	cfg.Timeout = cmp.Or(d.Timeout, cfg.Timeout)
	base, err := oob.Dial(ctx, stream, cfg)
	return made.begun(ctx, base, err)
}

// begun returns the connection that a dial has made.
func (b *pendingConns) begun(ctx context.Context, base conn.Conn, err error) (*Conn, error) {
	c := b.take(base)
	b.end()
	if err != nil {
		return nil, failed("dial", err)
	}
	if err := c.begin(ctx); err != nil {
		return nil, c.failed("dial", errors.Join(err, base.Close()))
	}
	return c, nil
}

// begin starts the protocol on a connection that this side has dialled.
func (c *Conn) begin(ctx context.Context) error {
	greeting, err := parseHello(c.base().PrivateData())
	if err != nil {
		return err
	}
	if c.shape.pool == nil {
		c.pollAlone()
	}
	c.open(greeting, true)
	c.startWatch(c.shape.checkTime())
	if c.shape.pool != nil && c.base().Device().Info().Driver == verbs.DriverSIW {
		return c.prove(ctx)
	}
	return nil
}
