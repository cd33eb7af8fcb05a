package rdmacm

import (
	"errors"
	"io"
	"net"
	"slices"

	"github.com/goverbs/goverbs/verbs"
)

// Disconnect ends the connection in order; both sides' Done is closed. Work
// not yet complete is flushed, so wait for its completions before. The Conn
// must still be closed. A datagram Conn has no connection to end: net.ErrClosed.
func (c *Conn) Disconnect() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	if !c.established {
		return net.ErrClosed
	}
	c.established = false
	c.ending.note(ErrDisconnected)
	return c.id.Disconnect()
}

// part is Disconnect for a queue pair that is freed next. It is not moved to the error
// state: rxe shows a message's completion before it acknowledges the message, and in the
// error state it never does. The peer of a program that closes at that moment would ask
// again, for ever if its retry count is 7. Freeing waits until rxe has answered.
func (c *Conn) part() {
	if c.established && !c.parted.Load() {
		_ = c.id.disconnect() // the peer may be disconnecting already, so no failure matters
	}
	c.established = false
}

// Close disconnects, leaves the groups that were joined, and frees all that the
// Conn made. Work not yet complete is lost: wait for its completions before.
// Memory regions and whatever else the caller made from PD, CQs or Device must be
// closed before, or given to Own; if not, the error matches verbs.ErrInUse and
// names them, the connection is down all the same, and another Close frees the
// rest; so it does after any other error. Closing a Conn that has freed all returns an
// error that matches net.ErrClosed.
func (c *Conn) Close() error {
	if c == nil {
		return closeNil("Conn")
	}
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed && len(c.groups)+len(c.link)+len(c.verbs)+len(c.device) == 0 {
		return &OpError{Op: "close connection from", Object: c.local.String(), Err: net.ErrClosed}
	}
	c.ending.note(net.ErrClosed)
	c.part()
	c.ending.end(net.ErrClosed)
	c.closed = true
	errs := []error{c.leaveAll(), c.link.free(), c.verbs.free()}
	if len(c.verbs) == 0 {
		errs = append(errs, c.device.free())
	}
	return errors.Join(errs...)
}

// owned is what a Conn has to free, in the order of making.
type owned []io.Closer

func (o *owned) add(c io.Closer) { *o = append(*o, c) }

// freeing is how something goes that has no Close for that.
type freeing func() error

// Close implements io.Closer.
func (f freeing) Close() error { return f() }

// free frees all, last first, and keeps for the next call what would not go. It
// stops at what is in use, because then all made before it is so too. Other
// failures don't stop it: what doesn't depend on them shall go.
func (o *owned) free() error {
	var errs []error
	for i, c := range slices.Backward(*o) {
		err := c.Close()
		if err == nil || errors.Is(err, net.ErrClosed) {
			*o = slices.Delete(*o, i, i+1)
			continue
		}
		errs = append(errs, err)
		if errors.Is(err, verbs.ErrInUse) {
			break
		}
	}
	return errors.Join(errs...)
}

// freeQP has a queue pair that is in use, by memory windows, end its work all the same.
func (c *Conn) freeQP() error {
	err := c.qp.Close()
	if err != nil {
		c.id.failQP()
	}
	c.id.DetachQP()
	return err
}
