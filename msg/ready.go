package msg

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/goverbs/goverbs/internal/wait"
)

// readiness is the connections of a pool that have something to receive: a message, or
// their end. Each is in the list once.
type readiness struct {
	mu          sync.Mutex // guards what follows, and the links of all connections
	first, last *Conn
	some        signal // there may be one
}

// place is a connection's in the list.
type place struct {
	queued     bool
	prev, next *Conn
}

func (r *readiness) push(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.place.queued {
		return
	}
	c.place = place{queued: true, prev: r.last}
	if r.last == nil {
		r.first = c
	} else {
		r.last.place.next = c
	}
	r.last = c
	r.some.raise()
}

// remove takes c off the list if it is there.
func (r *readiness) remove(c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlink(c)
}

func (r *readiness) unlink(c *Conn) {
	p := &c.place
	switch {
	case !p.queued:
		return
	case p.prev == nil:
		r.first = p.next
	default:
		p.prev.place.next = p.next
	}
	if p.next == nil {
		r.last = p.prev
	} else {
		p.next.place.prev = p.prev
	}
	*p = place{}
}

// pop takes the first one; nil: there is none. It wakes the next goroutine if there are
// more.
func (r *readiness) pop() *Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.first
	if c == nil {
		return nil
	}
	r.unlink(c)
	if r.first != nil {
		r.some.raise()
	}
	return c
}

// Recv waits for a message of any of the pool's connections, those that have waited longest
// first, and lends it as [Conn.Recv] does. So a server needs no goroutine for a connection
// that has nothing to say. Several goroutines may call it; the messages of one connection
// are then handed out in order, to any of them. A message goes either to Recv of the pool or to Recv of
// its connection, whichever asks first.
//
// An error with a connection is its end, told once: [io.EOF], or what its Recv returns. The
// program closes the connection then. An error without a connection is that of ctx, or
// matches [net.ErrClosed] after the pool's Close.
func (p *Pool) Recv(ctx context.Context) (*Conn, *Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, failed("receive", err)
		}
		c := p.ready.pop()
		if c == nil {
			_, err := wait.Await(ctx, &p.seats[0].poller.turn, &p.seats[0].poller, p.ready.some, p.stopped)
			if err == wait.ErrEnded {
				return nil, nil, failed("receive", net.ErrClosed)
			}
			continue
		}
		switch m, err := c.recvReady(); err {
		case errAgain:
		case nil, io.EOF:
			return c, m, err
		default:
			return c, nil, failed("receive", err)
		}
	}
}

// recvReady takes a message, or the end if nobody was told of it. A connection with more
// messages goes to the end of the list.
func (c *Conn) recvReady() (*Message, error) {
	m, err := c.tryRecvReady()
	if err != errSupply {
		return m, err
	}
	if err = c.supply(); err != errAgain {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.endTold = true
	}
	return nil, err
}

func (c *Conn) tryRecvReady() (*Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endTold || c.ending.isShut {
		return nil, errAgain
	}
	m, err := c.tryRecvLocked()
	switch err {
	case nil:
		c.wakeIfReady()
	case errAgain, errSupply:
	default:
		c.endTold = true
	}
	return m, err
}

// wake is for when a message or the end may have come. c is held.
func (c *Conn) wake() {
	c.arrived.raise()
	c.wakeIfReady()
}

func (c *Conn) wakeIfReady() {
	if p := c.shape.pool; p != nil && !c.ending.isShut && (c.waiting.len() > 0 || c.ending.peerClosed || isClosed(c.over)) {
		p.ready.push(c)
		p.seats[0].poller.turn.Wake()
	}
}
