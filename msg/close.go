package msg

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"time"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

// closeTimeout is how long a closed connection waits in the background for the peer.
const closeTimeout = 10 * time.Second

// closing is the state of Close.
type closing struct {
	linger  time.Duration // how long Close waits; negative if it does not
	lost    error         // see Conn.lost
	freeErr error         // why something could not be freed
	group   *wait.Group   // counts the connection until it is closed; nil unless a Listener accepted it
}

// SetLinger sets what Close does while the peer has not received everything yet, as
// [net.TCPConn.SetLinger] does.
//
// If sec < 0, which is the default, Close returns at once. Messages that were sent are
// delivered in the background, for at most 10 seconds.
//
// If sec == 0, Close discards everything that the peer has not received and resets the connection.
// The peer's calls fail with an error that matches rdmacm.ErrDisconnected.
//
// If sec > 0, Close waits until the peer has received everything. After sec seconds it
// discards the rest and returns an error that is a timeout.
func (c *Conn) SetLinger(sec int) error {
	if c == nil {
		return errNil("set")
	}
	if c.isShut() {
		return c.failed("set on", net.ErrClosed)
	}
	c.freeing.Lock()
	defer c.freeing.Unlock()
	c.closing.linger = time.Duration(min(sec, math.MaxInt32)) * time.Second
	return nil
}

// Close closes the connection in order and returns at once, unless [Conn.SetLinger]
// says otherwise. The peer receives all messages that were sent, and then io.EOF.
// Messages that arrived and were not received are dropped. Calls that wait return an
// error that matches net.ErrClosed. Messages that are lent stay readable.
//
// In the background, the connection waits until the peer has received everything. For
// large messages, the peer's program must call Recv. The wait ends after 10 seconds. If
// the process exits before, unsent messages are lost. A program that exits right after
// its last Send should call [Conn.Shutdown] instead, or call SetLinger with a positive
// number before Close.
//
// A second Close returns an error that matches net.ErrClosed. If something could not be
// freed, such as a protection domain in which the program has registered memory,
// another Close tries to free it again and returns the outcome.
func (c *Conn) Close() error {
	if c == nil {
		return errNil("close")
	}
	linger, first := c.beginClose()
	switch {
	case !first:
		return c.failed("close", c.freeRest())
	case linger < 0 && !isClosed(c.closed):
		return nil
	}
	<-c.closed
	lost, err := c.outcome()
	if linger < 0 {
		lost = nil
	}
	return c.failed("close", errors.Join(lost, err))
}

// Shutdown closes the connection and waits until the peer has received everything and
// all resources are freed. It may be called after Close, to wait for the work in the
// background. It fails if the connection broke before the peer had received everything.
//
// If ctx ends first, Shutdown returns an error that matches ctx.Err(), and the work
// continues in the background. The limits of SetLinger apply to Shutdown too. Without
// a limit it gives up after 10 seconds, with an error that is a timeout.
func (c *Conn) Shutdown(ctx context.Context) error {
	if c == nil {
		return errNil("shut down")
	}
	c.beginClose()
	if !isClosed(c.closed) {
		select {
		case <-c.closed:
		case <-ctx.Done():
			return c.failed("shut down", ctx.Err())
		}
	}
	return c.failed("shut down", errors.Join(c.outcome()))
}

func errNil(op string) error { return &verbs.Error{Op: op, Err: os.ErrInvalid} }

func (c *Conn) outcome() (lost, freeErr error) {
	c.freeing.Lock()
	defer c.freeing.Unlock()
	return c.closing.lost, c.closing.freeErr
}

// beginClose ends the calls that are waiting. first reports whether this call was the
// first to do so.
func (c *Conn) beginClose() (linger time.Duration, first bool) {
	c.freeing.Lock()
	linger = c.closing.linger
	c.freeing.Unlock()
	if !c.shutDown(linger == 0) {
		return linger, false
	}
	c.setInBackground(true)
	if linger == 0 || c.isDelivered() {
		c.free(c.lost(linger))
	} else {
		go func() { c.free(errors.Join(c.linger(lingerLimit(linger)), c.lost(linger))) }()
	}
	return linger, true
}

func lingerLimit(linger time.Duration) time.Duration {
	if linger < 0 {
		return closeTimeout
	}
	return linger
}

// setInBackground sets whether the connection is being closed in the background, so
// that the pool's Close waits for it.
func (c *Conn) setInBackground(is bool) {
	if p := c.shape.pool; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		c.inBackground = is
		p.gone.Broadcast()
	}
}

// free frees all resources. Calls that still use the connection are about to return.
func (c *Conn) free(lost error) {
	err := c.link.close()
	if c.shape.pool == nil {
		c.poller.turn.DropBackground()
	}
	c.finish()
	c.setInBackground(false)
	c.freeing.Lock()
	defer c.freeing.Unlock()
	c.closing.lost, c.closing.freeErr = lost, err
	close(c.closed)
	if c.closing.group != nil {
		c.closing.group.Done()
	}
}

// freeRest implements all calls of Close after the first. It frees what could not be
// freed before.
func (c *Conn) freeRest() error {
	c.freeing.Lock()
	defer c.freeing.Unlock()
	if !isClosed(c.closed) || c.closing.freeErr == nil {
		return net.ErrClosed
	}
	c.closing.freeErr = c.link.close()
	return c.closing.freeErr
}

// isShut reports whether the program has called Close.
func (c *Conn) isShut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending.isShut
}

// shutDown ends the program's calls, and reports whether this call was the first to do
// so. If abort is set, no CLOSE is sent.
func (c *Conn) shutDown(abort bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.isShut {
		return false
	}
	c.ending.isShut = true
	close(c.ending.shut)
	c.watchdog.stop()
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

// dropWaiting frees the messages that will not be received.
func (c *Conn) dropWaiting() {
	for ; c.waiting.len() > 0; c.waiting.pop() {
		if a := c.waiting.head(); !a.large || a.cookie != c.fetch.cookie || !c.fetch.isDone() { // otherwise it has been freed
			c.freeReceive(a.slot)
		}
	}
}

// linger waits until the peer has received everything.
func (c *Conn) linger(limit time.Duration) error {
	_ = c.sendTurn.Acquire(context.Background(), nil) // other senders return, because down is closed, so no other call waits for room then
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

// isDelivered reports whether the peer no longer needs this end. After a failure, this is
// known only once all completions have been read, because a CLOSE of the peer may be among
// them.
func (c *Conn) isDelivered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &c.ending
	sent := !e.closeDue && c.controls == 0 && c.fins.len() == 0
	return isClosed(c.over) || sent && c.peerHasAll()
}

// peerHasAll reports whether the peer has received all messages, or will receive no
// more. c is held.
func (c *Conn) peerHasAll() bool {
	return c.ending.peerClosed && (c.lent.count == 0 || c.ending.peerGone)
}

// lost returns why the peer may not have received everything, or nil if it has or the
// program has discarded the rest.
func (c *Conn) lost(linger time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if linger == 0 || c.peerHasAll() {
		return nil
	}
	return c.ending.first
}

// onQPClosed finishes a connection whose queue pair was not closed by Close.
func (c *Conn) onQPClosed() {
	c.mu.Lock()
	c.failBecause(net.ErrClosed)
	c.mu.Unlock()
	c.finish()
}

// finish ends the calls that wait for completions, because there will be none any more.
func (c *Conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchdog.stop()
	cause := c.ending.first
	if c.ending.isShut {
		cause = net.ErrClosed
	}
	if c.onesided != nil {
		c.onesided.End(cause)
	}
	c.endAll()
}

// ending is the state of a connection that ends. The connection's lock guards it.
//
//   - shut: the program has called Close. Nothing is received or sent any more.
//   - peerClosed: a CLOSE has been received. The program can receive the messages before
//     it, and cannot send.
//   - failing: a work request failed, or the peer broke the protocol. The program can
//     receive the messages that arrived. All work requests are about to complete, and
//     then over is closed.
//
// Each of these closes down.
type ending struct {
	shut       chan struct{}
	isShut     bool // shut is closed
	isDown     bool // the connection's down is closed
	peerClosed bool
	peerGone   bool // according to the CLOSE, the peer's program receives no more messages
	failing    bool
	first      error // the first cause of the failure
	closeDue   bool  // a CLOSE has to be sent
	closeSent  bool  // or is due
	closeFlags uint8
}

// whyDown returns why nothing can be sent. c is held.
func (e *ending) whyDown() error {
	switch {
	case e.isShut:
		return net.ErrClosed
	case e.peerClosed:
		return ErrPeerClosed
	}
	return e.first
}

func (c *Conn) downCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending.whyDown()
}

// explainEnd replaces wait.ErrEnded with the cause of the end.
func (c *Conn) explainEnd(err error) error {
	if err == wait.ErrEnded {
		return c.downCause()
	}
	return err
}

func (c *Conn) goDown() {
	if !c.ending.isDown {
		c.ending.isDown = true
		close(c.down)
		c.failBatches()
		c.poller.turn.Wake()
	}
}

// failWith handles a failed work request. If the link knows the cause, failWith
// records that. A flush is only a consequence. Completions of two queues may be polled
// out of order, so a more precise status replaces a flush.
func (c *Conn) failWith(wc *verbs.WC) {
	switch isFlush := wc.Status == verbs.StatusWRFlushErr; {
	case !c.ending.failing:
		c.failBecause(c.link.explain(wc.Err()))
	case !isFlush && errors.Is(c.ending.first, verbs.StatusWRFlushErr):
		c.ending.first = c.link.explain(wc.Err())
	}
}

// failBecause forbids further posts, and records the first cause.
func (c *Conn) failBecause(cause error) {
	if !c.ending.failing {
		c.ending.failing, c.ending.first = true, cause
		c.want(1) // all outstanding work requests are about to complete
		c.goDown()
	}
}

// fail ends the connection because of an error on this side. All its work requests then
// complete. c is held. Another goroutine disconnects, because that may take long.
func (c *Conn) fail(cause error) {
	if c.ending.failing {
		return
	}
	c.failBecause(cause)
	go c.link.disconnect()
	c.endIfIdle()
}

func (c *Conn) endIfIdle() {
	if c.ending.failing && c.outstanding == 0 {
		c.endAll()
	}
}

// endAll ends the calls that wait for completions. c is held.
func (c *Conn) endAll() {
	if isClosed(c.over) {
		return
	}
	close(c.over)
	if c.wants > 0 {
		c.want(-c.wants)
	}
	c.wake()
	c.poller.turn.Wake()
}

// onClose handles a CLOSE. The answer confirms that all messages before it have
// arrived.
func (c *Conn) onClose(f frame) error {
	if c.ending.peerClosed || f.cookie != c.got {
		return violation("CLOSE after %d messages with cookie %d", c.got, f.cookie)
	}
	c.ending.peerClosed, c.ending.peerGone = true, f.flags&flagReply == 0
	c.goDown()
	c.sendClose(flagReply)
	return nil
}

// sendClose marks a CLOSE as due, unless one was sent before.
func (c *Conn) sendClose(flags uint8) {
	if !c.ending.closeSent {
		c.ending.closeSent, c.ending.closeDue, c.ending.closeFlags = true, true, flags
	}
}
