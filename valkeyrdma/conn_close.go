package valkeyrdma

import (
	"cmp"
	"context"
	"net"
	"os"
	"time"

	"github.com/goverbs/goverbs/internal/netconn"
)

// SetLinger sets the behavior of Close while the peer's machine has not acknowledged all data, as
// [net.TCPConn.SetLinger] does.
//
// If sec < 0, which is the default, Close returns at once. The data is sent in the
// background, for at most 10 seconds.
//
// If sec == 0, Close discards the data.
//
// If sec > 0, Close waits until the peer's machine has acknowledged the data. After sec seconds it
// discards the rest and returns a timeout error.
func (c *Conn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	c.calls.Linger = sec
	return nil
}

// Close ends the connection in both directions. It returns at once, unless [Conn.SetLinger] has set
// a positive time. Blocked calls return an error that matches net.ErrClosed, and so does a second
// Close.
//
// When the connection ends, valkey-server discards data that it has not read.
//
// When the process exits, unsent data is lost, unlike with TCP. A program that exits right after its
// last Write should call [Conn.Shutdown] instead of Close, or SetLinger with a positive time.
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

// Shutdown closes the connection. It waits until the peer's machine has acknowledged all data and
// all resources are freed. It may be called after Close, to wait for the work in the background. If the connection
// broke before all data was acknowledged, Shutdown returns the cause. If the peer closes its end meanwhile, it receives
// no more data, and Shutdown returns no error for that.
//
// If ctx ends first, Shutdown returns an error that matches ctx.Err(). The data is then
// still sent in the background. The time limit of [Conn.SetLinger] applies to Shutdown too. Without
// one, Shutdown returns a timeout error after 10 seconds.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.beginClose()
	freed, canceled := c.calls.Freed(ctx)
	if canceled != nil {
		return c.fail("shut down", canceled)
	}
	return freed
}

// beginClose ends all blocked calls. It reports whether the connection was open.
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

// isDelivered reports whether the peer's machine has acknowledged all data, or the connection is over. The last sends
// may have no completion, so it posts an empty write after them.
func (c *Conn) isDelivered() bool {
	c.progress()
	c.stream.flush()
	return c.stream.outstanding()+c.stream.held == 0 || c.stream.failed != nil
}

// deliver waits until the peer's machine has acknowledged the data.
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

// free frees all resources once the last call has returned.
func (c *Conn) free(err error) {
	c.calls.Free(func() error {
		// The Timeout method of a *net.OpError does not look into joined errors.
		if err := cmp.Or(err, c.lost(), c.rc.Close()); err != nil {
			return c.fail("close", err)
		}
		return nil
	})
}

// lost returns the error that may have prevented the delivery of data, or nil.
func (c *Conn) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls.Linger == 0 || c.stream.ended {
		return nil
	}
	return c.stream.failed
}
