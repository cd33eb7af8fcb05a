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
