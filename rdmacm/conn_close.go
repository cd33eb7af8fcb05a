package rdmacm

import (
	"errors"
	"net"

	"github.com/goverbs/goverbs/uverbs"
)

// Disconnect ends the connection in order; both sides' Done is closed. Work
// not yet complete is flushed, so wait for its completions before. The Conn
// must still be closed.
func (c *Conn) Disconnect() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	return c.disconnect()
}

func (c *Conn) disconnect() error {
	if !c.established {
		return net.ErrClosed
	}
	c.established = false
	return c.id.Disconnect()
}

// Close disconnects and frees all that the Conn made. Work not yet complete is
// lost: wait for its completions before. Memory regions and whatever else the
// caller made from PD, CQs or Device must be closed before, or given to Own; if
// not, the error matches uverbs.ErrInUse and names them, the connection is down
// all the same, and another Close frees the rest. Closing a closed Conn does
// nothing.
func (c *Conn) Close() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	// The peer may have disconnected already, so no failure matters.
	_ = c.disconnect()
	c.end(net.ErrClosed)
	return errors.Join(c.link.free(), c.verbs.free())
}

// owned is what a Conn has to free, in the order of making.
type owned []func() error

func (o *owned) add(free func() error) { *o = append(*o, free) }

// free frees all, last first. It stops at what is in use, because then all
// made before it is so too; the next call goes on from there. Other failures
// don't stop it.
func (o *owned) free() error {
	var errs []error
	for len(*o) > 0 {
		last := len(*o) - 1
		err := (*o)[last]()
		if errors.Is(err, uverbs.ErrInUse) {
			return errors.Join(append(errs, err)...)
		}
		if err != nil && !errors.Is(err, uverbs.ErrClosed) {
			errs = append(errs, err)
		}
		*o = (*o)[:last]
	}
	return errors.Join(errs...)
}
