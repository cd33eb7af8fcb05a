package msg

import (
	"context"
	"net"
	"os"
	"time"
)

// closePatience is how long Close waits for the peer.
const closePatience = 10 * time.Second

// Close ends the connection in order: the peer receives all that was sent, and then
// io.EOF. Messages that came and were not received are dropped. Calls that wait return an
// error that matches net.ErrClosed.
//
// Close returns when the peer's end has everything, including the large messages, which
// the peer's program has to receive for that. It waits for 10 seconds at most, and then
// returns an error that matches os.ErrDeadlineExceeded; the connection is closed all the
// same. Messages that are lent stay readable. Closing again does nothing.
func (c *Conn) Close() error {
	if !c.shutDown() {
		<-c.closed
		return nil
	}
	err := c.linger()
	if e := c.link.close(); err == nil {
		err = e
	}
	if c.shape.pool == nil {
		c.pump.retire()
	}
	c.finish()
	close(c.closed)
	return failed("close", err)
}

// isShut tells whether the program has called Close.
func (c *Conn) isShut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ending.isShut
}

// shutDown stops the program's calls, and says whether it was the first to do so.
func (c *Conn) shutDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.isShut {
		return false
	}
	c.ending.isShut = true
	close(c.ending.shut)
	c.goDown()
	c.sendClose(0)
	c.dropWaiting()
	c.flush()
	c.arrived.raise()
	c.pump.nudge()
	return true
}

// dropWaiting frees the messages that nobody will take. The one that is being read is
// left to the READ.
func (c *Conn) dropWaiting() {
	if c.fetch.into != nil {
		return
	}
	for c.waiting.len() > 0 {
		c.freeReceive(c.waiting.head().slot)
		c.waiting.pop()
	}
}

// linger waits until the peer has all.
func (c *Conn) linger() error {
	_ = c.sendTurn.take(context.Background(), nil) // senders leave, because down is closed; then nobody else waits for room
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for !c.isDelivered() {
		switch _, err := await(ctx, c.pump, c.room, c.over); {
		case err == errEnd:
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
	return e.failing || e.peerClosed && sent && (c.loans.count == 0 || e.peerGone)
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
