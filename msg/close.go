package msg

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"time"

	"github.com/goverbs/goverbs/internal/wait"
)

// closePatience is how long a closed connection waits in the background for the peer.
const closePatience = 10 * time.Second

// closing is how far Close has come.
type closing struct {
	linger  int   // see SetLinger
	set     bool  // linger is
	lost    error // why the peer may not have everything
	freeErr error // why something is left
}

// SetLinger sets what Close does while the peer does not have everything yet, as
// [net.TCPConn.SetLinger] does.
//
// If sec < 0, which is the default, Close returns at once. What was sent is delivered in
// the background, for at most 10 seconds.
//
// If sec == 0, Close discards what the peer does not have and resets the connection. The
// peer's calls fail with an error that matches rdmacm.ErrDisconnected.
//
// If sec > 0, Close waits until the peer has everything. After sec seconds it discards what
// is left and returns an error that is a timeout.
func (c *Conn) SetLinger(sec int) error {
	if c == nil {
		return errNil("set")
	}
	if c.isShut() {
		return failed("set", net.ErrClosed)
	}
	c.freeing.Lock()
	defer c.freeing.Unlock()
	c.closing.linger, c.closing.set = sec, true
	return nil
}

// Close ends the connection in order and returns at once, unless [Conn.SetLinger] says
// otherwise. The peer receives all that was sent, and then io.EOF. Messages that came and
// were not received are dropped. Calls that wait return an error that matches net.ErrClosed.
// Messages that are lent stay readable.
//
// The background waits until the peer's end has everything, including the large messages,
// which the peer's program has to receive for that. It gives up after 10 seconds. The process
// must live until then: what is left when it exits is lost. A program that exits right after
// its last Send calls [Conn.Shutdown] instead, or SetLinger with a positive number before.
//
// A second Close returns an error that matches net.ErrClosed. If something could not be
// freed, such as a protection domain that a region of the program's is in, it tries again
// and returns the outcome of that.
func (c *Conn) Close() error {
	if c == nil {
		return errNil("close")
	}
	linger, first := c.beginClose()
	switch {
	case !first:
		return failed("close", c.freeRest())
	case linger < 0 && !isClosed(c.closed):
		return nil
	}
	<-c.closed
	lost, err := c.outcome()
	if linger < 0 {
		lost = nil
	}
	return failed("close", errors.Join(lost, err))
}

// Shutdown closes the connection and waits until the peer's end has everything, as Close
// does in the background, and everything is freed. It may be called after Close, to wait for
// the background. It fails if the connection broke before the peer had everything.
//
// If ctx ends first, Shutdown returns an error that matches ctx.Err(), and the background
// goes on. The limits of SetLinger hold for Shutdown too: without one it gives up after 10
// seconds, with an error that is a timeout.
func (c *Conn) Shutdown(ctx context.Context) error {
	if c == nil {
		return errNil("shut down")
	}
	c.beginClose()
	if !isClosed(c.closed) {
		select {
		case <-c.closed:
		case <-ctx.Done():
			return failed("shut down", ctx.Err())
		}
	}
	return failed("shut down", errors.Join(c.outcome()))
}

func errNil(op string) error { return &Error{op, os.ErrInvalid} }

func (c *Conn) outcome() (lost, freeErr error) {
	c.freeing.Lock()
	defer c.freeing.Unlock()
	return c.closing.lost, c.closing.freeErr
}

// beginClose ends the calls that are under way, and reports whether it was the first to do
// so.
func (c *Conn) beginClose() (linger int, first bool) {
	c.freeing.Lock()
	if linger = -1; c.closing.set {
		linger = c.closing.linger
	}
	c.freeing.Unlock()
	if !c.shutDown(linger == 0) {
		return linger, false
	}
	c.parting(true)
	if linger == 0 || c.isDelivered() {
		c.free(c.lost(linger))
	} else {
		go func() { c.free(errors.Join(c.linger(lingerLimit(linger)), c.lost(linger))) }()
	}
	return linger, true
}

func lingerLimit(linger int) time.Duration {
	if linger < 0 {
		return closePatience
	}
	return time.Duration(min(linger, math.MaxInt32)) * time.Second
}

// parting has the pool's Close wait for the connection, or not any more.
func (c *Conn) parting(is bool) {
	if p := c.shape.pool; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		c.parts = is
		p.gone.Broadcast()
	}
}

// free frees everything. No call uses the connection any more, or it returns soon.
func (c *Conn) free(lost error) {
	err := c.link.close()
	if c.shape.pool == nil {
		c.poller.turn.DropBackground()
	}
	c.finish()
	c.parting(false)
	c.freeing.Lock()
	defer c.freeing.Unlock()
	c.closing.lost, c.closing.freeErr = lost, err
	close(c.closed)
}

// freeRest is for another Close.
func (c *Conn) freeRest() error {
	c.freeing.Lock()
	defer c.freeing.Unlock()
	if !isClosed(c.closed) || c.closing.freeErr == nil {
		return net.ErrClosed
	}
	c.closing.freeErr = c.link.close()
	return c.closing.freeErr
}

// isShut tells whether the program has called Close.
func (c *Conn) isShut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending.isShut
}

// shutDown stops the program's calls, and says whether it was the first to do so. An abort
// tells the peer nothing.
func (c *Conn) shutDown(abort bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.isShut {
		return false
	}
	c.ending.isShut = true
	close(c.ending.shut)
	c.watch.stop()
	c.goDown()
	if !abort {
		c.sendClose(0)
		c.dropWaiting()
		c.flush()
	}
	c.arrived.raise()
	c.poller.turn.Wake()
	return true
}

// dropWaiting frees the messages that nobody will take.
func (c *Conn) dropWaiting() {
	for ; c.waiting.len() > 0; c.waiting.pop() {
		if a := c.waiting.head(); !a.large || a.cookie != c.fetch.cookie || !c.fetch.isDone() { // else it has been freed
			c.freeReceive(a.slot)
		}
	}
}

// linger waits until the peer has all.
func (c *Conn) linger(limit time.Duration) error {
	_ = c.sendTurn.Acquire(context.Background(), nil) // senders leave, because down is closed; then nobody else waits for room
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for !c.isDelivered() {
		switch _, err := wait.Await(ctx, &c.poller.turn, c.poller, c.room, c.over); {
		case err == wait.ErrEnded:
			return nil
		case err != nil:
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

// isDelivered tells that the peer needs this end no more.
func (c *Conn) isDelivered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.ending
	sent := !e.closeDue && c.controls == 0 && c.fins.len() == 0
	return e.failing || sent && c.peerHasAll()
}

// peerHasAll tells that the peer has all that was sent, or does not want it. c is held.
func (c *Conn) peerHasAll() bool {
	return c.ending.peerClosed && (c.loans.count == 0 || c.ending.peerGone)
}

// lost is why the peer may not have everything, unless the program wants it so.
func (c *Conn) lost(linger int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if linger == 0 || c.peerHasAll() {
		return nil
	}
	return c.ending.first
}

// lose is finish for a queue pair that has gone beneath the Conn.
func (c *Conn) lose() {
	c.mu.Lock()
	c.failBecause(net.ErrClosed)
	c.mu.Unlock()
	c.finish()
}

// finish is for when no completion will come any more.
func (c *Conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch.stop()
	cause := c.ending.first
	if c.ending.isShut {
		cause = net.ErrClosed
	}
	for _, o := range c.opBySlot {
		if o.posted {
			c.settleOp(o, cause)
		}
	}
	c.endAll()
}
