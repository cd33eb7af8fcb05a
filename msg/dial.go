package msg

import (
	"context"
	"errors"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// Dial connects to a [Listener] at an address that rdmacm.Dial takes.
func Dial(ctx context.Context, address string, cfg *Config) (*Conn, error) {
	s, err := cfg.shape()
	if err != nil {
		return nil, failed("dial", err)
	}
	made := pendingConns{shape: s}
	cm, err := rdmacm.Dial(ctx, address, made.config())
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
	c.startWatch(c.shape.keepAlive)
	if c.shape.pool != nil && c.cm.Device().Info().Driver == verbs.DriverSIW {
		return c.prove(ctx)
	}
	return nil
}
