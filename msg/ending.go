package msg

import (
	"errors"
	"net"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

// ending is how a connection ends. It is guarded by the connection's lock.
//
//   - shut: the program has called Close. Nothing is received or sent any more.
//   - peerClosed: a CLOSE came. The program can receive the messages before it, and
//     sends nothing.
//   - failing: a work request failed, or the peer broke the protocol. The program can
//     receive the messages that arrived. All work requests are about to complete, and
//     then over is closed.
//
// Each of them closes down.
type ending struct {
	shut       chan struct{}
	isShut     bool // shut is closed
	isDown     bool // the connection's down is closed
	peerClosed bool
	peerGone   bool // the CLOSE came from a program that receives no more
	failing    bool
	first      error // why it fails
	closeDue   bool  // a CLOSE has to be sent
	closeSent  bool  // or is due
	closeFlags uint8
}

// whyDown is why nothing can be sent. c is held.
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

// explainEnd replaces wait.ErrEnded with the reason why the connection went down.
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
		c.poller.turn.Wake()
	}
}

// failWith notes a work request that failed, with the connection's cause if it has one. A
// flush is only a consequence. Completions of two queues may come out of order, so a status
// that tells more takes its place.
func (c *Conn) failWith(wc *verbs.WC) {
	switch isFlush := wc.Status == verbs.StatusWRFlushErr; {
	case !c.ending.failing:
		c.failBecause(c.link.explain(wc.Err()))
	case !isFlush && errors.Is(c.ending.first, verbs.StatusWRFlushErr):
		c.ending.first = c.link.explain(wc.Err())
	}
}

// failBecause forbids further posts. The first cause counts.
func (c *Conn) failBecause(cause error) {
	if !c.ending.failing {
		c.ending.failing, c.ending.first = true, cause
		c.want(1) // all that is outstanding is about to complete
		c.goDown()
	}
}

// fail ends the connection for a reason of this side's: all its work requests then
// complete. c is held, and ending a connection may take a while.
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

// endAll has calls of Recv and Close return that wait for completions. c is held.
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

// peerCloses takes a CLOSE. It is answered, so that the peer knows that all it sent has
// come.
func (c *Conn) peerCloses(f frame) error {
	if c.ending.peerClosed || f.cookie != c.got {
		return violation("CLOSE after %d messages with cookie %d", c.got, f.cookie)
	}
	c.ending.peerClosed, c.ending.peerGone = true, f.flags&flagReply == 0
	c.goDown()
	c.sendClose(flagReply)
	return nil
}

// sendClose has a CLOSE sent, the first time.
func (c *Conn) sendClose(flags uint8) {
	if !c.ending.closeSent {
		c.ending.closeSent, c.ending.closeDue, c.ending.closeFlags = true, true, flags
	}
}
