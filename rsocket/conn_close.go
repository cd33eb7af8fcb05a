package rsocket

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
)

// silentLimit is how long a closed connection waits for the first word of a peer that dialled
// over iWARP. Such a peer must send first, and a correct peer does so as soon as it is connected.
const silentLimit = 2 * time.Second

// CloseWrite ends this side's data: the peer's Read returns all data, and then io.EOF. Read is not
// affected. A Write that is under way in another goroutine ends at once, with an error that matches
// syscall.EPIPE, and so do later ones. A second CloseWrite does nothing.
//
// C: rshutdown with SHUT_WR
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.stream.end(false)
	c.watch()
	// Wake a Write that waits, even one that waits for events.
	c.calls.Changed()
	c.calls.Writer.Deadline.Interrupt()
	return nil
}

// SetLinger sets what Close does with data that the peer's machine has not taken yet, as
// [net.TCPConn.SetLinger] does.
//
// If sec < 0, which is the default, Close returns at once. The data is sent in the
// background, for at most 10 seconds.
//
// If sec == 0, Close discards the data and resets the connection. The peer's Read returns
// an error that matches syscall.ECONNRESET.
//
// If sec > 0, Close waits until the peer's machine has taken the data. After sec seconds it
// discards the rest and returns an error that is a timeout.
//
// C: rsetsockopt with SO_LINGER
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
// says otherwise. Calls that are under way return an error that matches net.ErrClosed. The
// peer gets all data, even if it reads later. Mappings are closed before Close returns. A
// peer that still writes to a mapping breaks the connection, and undelivered data is lost.
// A second Close returns an error that matches net.ErrClosed.
//
// Unlike with TCP, the kernel discards unsent data when the process exits. A program
// that exits right after its last Write should call [Conn.Shutdown] instead, or call
// SetLinger with a positive number before Close.
//
// C: rclose
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
// everything is freed. It may be called after Close, to wait for the work in the
// background. If the connection broke before the data was taken, Shutdown returns the
// cause. It is not an error if the peer closes its end meanwhile and takes no more data.
//
// If ctx ends first, Shutdown returns an error that matches ctx.Err(). The data is then
// still sent in the background. The limits of [Conn.SetLinger] apply to Shutdown too. Without
// them it gives up after 10 seconds, with an error that is a timeout.
//
// Over iWARP a send completes once this machine's TCP has taken it. Shutdown waits only for that,
// as rclose does, and later losses are not reported. A program that must know that its data
// arrived waits for an answer of its peer before it closes.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.beginClose()
	freed, canceled := c.calls.Freed(ctx)
	if canceled != nil {
		return c.fail("shut down", canceled)
	}
	return freed
}

// beginClose ends all calls that are under way, and sends DISCONNECT behind the data. It reports
// whether the connection was open until now.
func (c *Conn) beginClose() (linger int, ok bool) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, false
	}
	c.closed = true
	linger = c.calls.Linger
	if c.alive != nil {
		c.alive.Stop()
	}
	done := linger == 0
	if !done {
		c.progress()
		for c.hasEnded() && c.stream.failed == nil && !c.stream.ends.gotDisconnect {
			c.progress() // polls everything that has arrived
		}
		c.stream.end(true)
		c.progress()
		done = c.stream.delivered()
	}
	c.mu.Unlock()
	c.calls.End()
	// The memory belongs to the program again when Close returns. A mapping that fails to close is
	// tried again, and its error reported, when the connection is freed.
	_ = c.mappings.Close()
	if done {
		c.free(nil)
	} else {
		go func() { c.free(c.deliver(netconn.DeliveryLimit(linger))) }()
	}
	return linger, true
}

// deliver waits until the peer's machine has taken the data.
func (c *Conn) deliver(limit time.Duration) error {
	end := time.Now().Add(limit)
	defer c.calls.Closer.Deadline.Close()
	for {
		delivered, seen, next := c.tryDeliver(end)
		if delivered {
			return nil
		}
		if time.Until(end) <= 0 {
			return os.ErrDeadlineExceeded
		}
		c.calls.Closer.Deadline.Set(next)
		c.calls.Park(&c.calls.Closer, seen)
	}
}

// tryDeliver reports whether the peer's machine has taken the data. If not, next is the time
// until which to wait.
func (c *Conn) tryDeliver(end time.Time) (delivered bool, seen uint64, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next = end; c.stream.silent {
		if speak := c.begun.Add(silentLimit); time.Until(speak) <= 0 {
			c.stream.silent = false
		} else if speak.Before(end) {
			next = speak
		}
	}
	c.progress()
	return c.stream.delivered(), c.calls.Changes, next
}

// free frees all resources of the connection.
func (c *Conn) free(err error) {
	c.calls.Free(func() error {
		// Return a single error, because Timeout of a *net.OpError does not examine joined
		// errors.
		if err := cmp.Or(err, c.lost(), c.rc.Close()); err != nil {
			return c.fail("close", err)
		}
		return nil
	})
}

// lost returns the reason why data may not have been delivered, or nil. A peer that has read
// DISCONNECT, or the SHUTDOWN behind its own, may disconnect before the last acknowledgement
// arrives here.
func (c *Conn) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stream
	switch {
	case c.calls.Linger == 0, s.ends.gotDisconnect:
		return nil
	case (s.ends.sentDisconnect || s.ends.over()) && errors.Is(s.failed, rdmacm.ErrDisconnected):
		return nil
	}
	return s.failed
}
