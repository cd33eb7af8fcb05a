package msg

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// Dialer connects with options. The zero value is valid. [Dial] uses it. Its methods may be
// called concurrently, but its fields must not be changed meanwhile.
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
		FallbackDelay: d.FallbackDelay, AckTimeout: ackTimeout}
	cm, err := dialer.Dial(ctx, address)
	c := made.take(cm)
	made.end()
	if err != nil {
		return nil, failed("dial", err)
	}
	if err := c.begin(ctx); err != nil {
		return nil, c.failed("dial", errors.Join(err, cm.Close()))
	}
	return c, nil
}

// begin starts the protocol on a connection that this side has dialled.
func (c *Conn) begin(ctx context.Context) error {
	greeting, err := parseHello(c.cm.PrivateData())
	if err != nil {
		return err
	}
	if c.shape.pool == nil {
		c.pollAlone()
	}
	c.open(greeting, true)
	c.startWatch(c.shape.keepAlive)
	if c.shape.pool != nil && c.cm.Device().Info().Driver == verbs.DriverSIW {
		return c.prove(ctx)
	}
	return nil
}
