package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"syscall"
)

// connectTries bounds how many source ports of the kernel's choice a dial tries.
const connectTries = 16

// connect asks the peer and waits for its answer. The connection manager chooses a
// source port without a look at the host's TCP sockets. On iWARP, where the
// connection is one of TCP, the port may still be in TIME_WAIT towards that peer
// or belong to another program; then another port is tried. A port of the caller's
// choice is the caller's to change.
func (c *Conn) connect(ctx context.Context, dst netip.AddrPort, cfg *Config) (*Event, error) {
	for n := 1; ; n++ {
		err := c.id.Connect(ctx, cfg.param())
		if err == nil {
			return c.await(ctx, EventEstablished)
		}
		if n == connectTries || cfg.Source.Port() != 0 || !c.id.isIWARP() || !isPortTaken(err) {
			return nil, err
		}
		if err := c.takeAnotherPort(ctx, dst, cfg); err != nil {
			return nil, err
		}
	}
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
		c.link.add(func() error { return c.id.Destroy() })
	}
	c.id = id
}
