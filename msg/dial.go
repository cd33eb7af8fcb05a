package msg

import (
	"context"
	"errors"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// Dial connects to a [Listener] at an address that rdmacm.Dial takes.
func Dial(ctx context.Context, address string, cfg *Config) (*Conn, error) {
	s, err := cfg.shape()
	if err != nil {
		return nil, failed("dial", err)
	}
	var made births
	cm, err := rdmacm.Dial(ctx, address, s.cm(func(cm *rdmacm.Conn) error { return build(cm, s, nil, &made) }))
	c := made.take(cm)
	made.end()
	if err != nil {
		return nil, failed("dial", err)
	}
	if err := c.begin(ctx); err != nil {
		return nil, failed("dial", errors.Join(err, cm.Close()))
	}
	return c, nil
}

// build makes the Conn on a queue pair that is not connected yet, and adds it to made. It
// goes when cm is closed. The peer's greeting is known to the side that accepts.
func build(cm *rdmacm.Conn, s shape, greeting *hello, made *births) error {
	id := uint32(1)
	if s.pool != nil {
		var err error
		if id, err = s.pool.admit(s.entries()); err != nil {
			return err
		}
	}
	c := newConn(rdmaLink{cm}, id, s, cm.PD())
	c.cm = cm
	cm.Own(closer(func() error {
		if s.pool != nil {
			s.pool.remove(c)
		}
		return nil
	}))
	cm.Own(c.heap)
	if greeting != nil {
		c.open(*greeting, false)
	}
	if s.pool != nil {
		s.pool.add(c)
	}
	made.add(c)
	return c.prepare()
}

type closer func() error

func (f closer) Close() error { return f() }

// begin is for when the connection that this side dialled stands.
func (c *Conn) begin(ctx context.Context) error {
	greeting, err := parseHello(c.cm.PrivateData())
	if err != nil {
		return err
	}
	if c.shape.pool == nil {
		c.pollAlone()
	}
	c.open(greeting, true)
	if c.shape.pool != nil && c.cm.Device().Info().Driver == uverbs.DriverSIW {
		return c.prove(ctx)
	}
	return nil
}
