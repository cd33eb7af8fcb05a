package valkeyrdma

import (
	"cmp"
	"context"
	"net"
	"os"
	"time"

	"github.com/goverbs/goverbs/internal/netconn"
)

// SetLinger sets what Close does with data that the peer's machine has not taken yet, as
// [net.TCPConn.SetLinger] does.
//
// If sec < 0, which is the default, Close returns at once. The data is sent in the
// background, for at most 10 seconds.
//
// If sec == 0, Close discards the data.
//
// If sec > 0, Close waits until the peer's machine has taken the data. After sec seconds it
// discards the rest and returns an error that is a timeout.
func (c *Conn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	c.calls.Linger = sec
	return nil
}

// Close ends the connection in both directions and returns at once, unless [Conn.SetLinger]
// says otherwise. Calls that are under way return an error that matches net.ErrClosed. A second
// Close returns such an error too.
//
// valkey-server discards data that it has not read when the connection ends.
//
// The process must live until the data has been sent: when it exits, the kernel discards
// the rest, unlike for TCP. A program that exits right after its last Write calls
// [Conn.Shutdown], or SetLinger with a positive number, instead.
func (c *Conn) Close() error {
	if c == nil {
		return os.ErrInvalid
	}
	linger, ok := c.beginClose()
	switch {
	case !ok:
		return c.fail("close", net.ErrClosed)
	case linger < 0:
		return nil
	}
	freed, _ := c.calls.Freed(context.Background())
	return freed
}

// Shutdown closes the connection, and waits until the peer's machine has taken all data and
// everything is freed. It may be called after Close, to wait for the work in the background. If the connection broke
// before the data was taken, Shutdown returns the cause. A peer that closes its end meanwhile takes no more data, which
// is no error.
//
// If ctx ends first, Shutdown returns an error that matches ctx.Err(). The data is then
// still sent in the background. The limits of [Conn.SetLinger] apply to Shutdown too. Without
// them it gives up after 10 seconds, with an error that is a timeout.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.beginClose()
	freed, canceled := c.calls.Freed(ctx)
	if canceled != nil {
		return c.fail("shut down", canceled)
	}
	return freed
}

// beginClose ends all calls that are under way. It reports whether the connection was open until now.
func (c *Conn) beginClose() (linger int, ok bool) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, false
	}
	c.closed = true
	linger = c.calls.Linger
	c.timer.Stop()
	done := linger == 0
	if !done {
		done = c.isDelivered()
	}
	c.mu.Unlock()
	c.calls.End()
	if done {
		c.free(nil)
	} else {
		go func() { c.free(c.deliver(netconn.DeliveryLimit(linger))) }()
	}
	return linger, true
}

// isDelivered reports whether the peer's machine has taken all data, or the connection is over. The last sends may have
// no completion of their own, so an empty write follows them.
func (c *Conn) isDelivered() bool {
	c.progress()
	c.stream.flush()
	return c.stream.outstanding()+c.stream.held == 0 || c.stream.failed != nil
}

// deliver waits until the peer's machine has taken the data.
func (c *Conn) deliver(limit time.Duration) error {
	defer c.calls.Closer.Deadline.Close()
	c.calls.Closer.Deadline.Set(time.Now().Add(limit))
	for {
		c.mu.Lock()
		delivered := c.isDelivered()
		seen := c.calls.Changes
		c.mu.Unlock()
		switch {
		case delivered:
			return nil
		case c.calls.Closer.Deadline.IsOver():
			return os.ErrDeadlineExceeded
		}
		c.calls.Park(&c.calls.Closer, seen)
	}
}

// free frees everything.
func (c *Conn) free(err error) {
	c.calls.Free(func() error {
		// Timeout of a *net.OpError does not look into several errors.
		if err := cmp.Or(err, c.lost(), c.rc.Close()); err != nil {
			return c.fail("close", err)
		}
		return nil
	})
}

// lost returns the reason why data may not have been delivered, or nil.
func (c *Conn) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls.Linger == 0 || c.stream.ended {
		return nil
	}
	return c.stream.failed
}
