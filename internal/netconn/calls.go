package netconn

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/uverbs"
)

// Calls is the state of the calls of a connection that wait, and of its end. The connection makes progress
// only during its calls. Of those that wait, one waits for events and wakes the others.
type Calls struct {
	Reading, Writing       sync.Mutex // held by the one call that reads, and the one that writes
	Reader, Writer, Closer Side
	// Channel has the events of both queues.
	Channel *uverbs.CompChannel

	queues Queues
	turn   wait.Turn     // held by the one call that waits for events
	freed  chan struct{} // closed once the closed connection has freed everything
	err    error         // of Free, set before freed is closed

	mu      *sync.Mutex // the connection's, which guards the fields below
	Changes uint64      // counts completions and arrivals
	Waiting bool        // a call waits for events
	Linger  int         // as that of net.TCPConn.SetLinger
}

// Queues are the functions of a connection for its queues. They are called with the connection's lock.
type Queues struct {
	Arm func() // arms the receive queue
	// Watch arms the send queue if a call waits for its completions, and handles what has completed before.
	Watch func()
	Rang  func(*uverbs.CQ) // an event of the queue was read
}

// Side is the state that one kind of call waits with.
type Side struct {
	Deadline Deadline
	wake     chan struct{} // holds a token when something may have changed
}

// Init prepares the state. It must precede all other calls.
func (c *Calls) Init(mu *sync.Mutex, queues Queues) {
	c.mu, c.queues, c.Linger, c.freed = mu, queues, -1, make(chan struct{})
	c.turn.Init(nil)
	for _, s := range []*Side{&c.Reader, &c.Writer, &c.Closer} {
		s.Deadline.Init()
		s.wake = make(chan struct{}, 1)
	}
}

// Changed wakes all calls that wait. The caller holds the lock.
func (c *Calls) Changed() {
	c.Changes++
	for _, s := range [...]*Side{&c.Reader, &c.Writer, &c.Closer} {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Park waits until c.Changes may differ from seen, or the deadline of the side has passed.
func (c *Calls) Park(s *Side, seen uint64) {
	expiry := s.Deadline.Expiry()
	if c.turn.Acquire(expiry, s.wake) != nil {
		return
	}
	defer c.turn.Release()
	var rang *uverbs.CQ
	if !c.hasChanged(seen) {
		rang, _ = c.Channel.Get(expiry) // the caller finds out what happened
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Waiting = false
	if rang != nil {
		c.queues.Rang(rang)
	}
}

// Tend calls Watch if a call waits for events, so that the caller's sends wake it. It returns the number of
// changes before that, because the caller has not seen later ones. The caller holds the lock.
func (c *Calls) Tend() (seen uint64) {
	if seen = c.Changes; c.Waiting {
		c.queues.Watch()
	}
	return seen
}

// hasChanged arms the queues for a call that is about to wait for events, and then reports whether
// c.Changes differs from seen.
func (c *Calls) hasChanged(seen uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Changes != seen {
		return true
	}
	c.Waiting = true
	c.queues.Arm()
	c.queues.Watch()
	return c.Changes != seen
}

// End ends the calls that read and write, now and later.
func (c *Calls) End() {
	c.Reader.Deadline.Close()
	c.Writer.Deadline.Close()
}

// closeTimeout bounds how long a closed connection waits in the background until the peer's machine has
// taken the data.
const closeTimeout = 10 * time.Second

// DeliveryLimit returns how long a closed connection may take to deliver the data.
func DeliveryLimit(linger int) time.Duration {
	if linger < 0 {
		return closeTimeout
	}
	return time.Duration(min(linger, math.MaxInt32)) * time.Second
}

// Free frees everything with free, once the last call has returned.
func (c *Calls) Free(free func() error) {
	c.Reading.Lock()
	defer c.Reading.Unlock()
	c.Writing.Lock()
	defer c.Writing.Unlock()
	c.err = free()
	close(c.freed)
}

// Freed waits until everything is freed, and returns the error of that. If ctx ends first, it returns
// ctx.Err().
func (c *Calls) Freed(ctx context.Context) (freed, canceled error) {
	select {
	case <-c.freed:
		return c.err, nil
	default:
	}
	select {
	case <-c.freed:
		return c.err, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
