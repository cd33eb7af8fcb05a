package valkeyrdma

import (
	"cmp"
	"context"
	"math"
	"net"
	"os"
	"time"
)

// closeTimeout bounds how long a closed connection waits in the background until the peer's machine has
// taken the data.
const closeTimeout = 10 * time.Second

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
	c.linger = sec
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
	<-c.freed
	return c.closeErr
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
	select {
	case <-c.freed:
		return c.closeErr
	default:
	}
	select {
	case <-c.freed:
		return c.closeErr
	case <-ctx.Done():
		return c.fail("shut down", ctx.Err())
	}
}

// beginClose ends all calls that are under way. It reports whether the connection was open until now.
func (c *Conn) beginClose() (linger int, ok bool) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, false
	}
	c.closed = true
	linger = c.linger
	c.timer.Stop()
	done := linger == 0
	if !done {
		done = c.isDelivered()
	}
	c.mu.Unlock()
	c.reader.deadline.Close()
	c.writer.deadline.Close()
	if done {
		c.free(nil)
	} else {
		go func() { c.free(c.deliver(deliveryLimit(linger))) }()
	}
	return linger, true
}

// deliveryLimit returns how long a closed connection may take to deliver the data.
func deliveryLimit(linger int) time.Duration {
	if linger < 0 {
		return closeTimeout
	}
	return time.Duration(min(linger, math.MaxInt32)) * time.Second
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
	defer c.closer.deadline.Close()
	c.closer.deadline.Set(time.Now().Add(limit))
	for {
		c.mu.Lock()
		delivered := c.isDelivered()
		seen := c.changes
		c.mu.Unlock()
		switch {
		case delivered:
			return nil
		case c.closer.deadline.IsOver():
			return os.ErrDeadlineExceeded
		}
		c.park(&c.closer, seen)
	}
}

// free frees everything, once the last call has returned.
func (c *Conn) free(err error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	// Timeout of a *net.OpError does not look into several errors.
	if err := cmp.Or(err, c.lost(), c.rc.Close()); err != nil {
		c.closeErr = c.fail("close", err)
	}
	close(c.freed)
}

// lost returns the reason why data may not have been delivered, or nil.
func (c *Conn) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.linger == 0 || c.stream.ended {
		return nil
	}
	return c.stream.failed
}
