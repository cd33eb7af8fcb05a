package rdmacm

import (
	"fmt"
	"sync"

	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// ending is how a connection ends. The first cause counts, whichever shows first:
// an event, a completion that failed, or a call of the owner's. It is noted before
// the queue pair is moved to the error state, so that whoever sees a work request
// flushed finds the cause; done is closed when the queue pair has been moved.
type ending struct {
	done chan struct{}

	mu     sync.Mutex // guards what follows
	begun  bool       // there is a queue pair, so the Conn's device is known
	cause  error
	over   bool         // done is closed
	stands bool         // the set-up is over
	failed error        // of the queue pair, during the set-up
	cqs    []*uverbs.CQ // the connection's own
	room   [2]*uverbs.CQ
}

// Done is closed when the connection has ended: one of the sides disconnected or
// died, the queue pair failed, the device was removed, or Close was called. Err
// tells which.
func (c *Conn) Done() <-chan struct{} { return c.ending.done }

// Err is nil while the connection lives. Then it tells the first cause of its end:
// ErrDisconnected after an orderly end by either side, ErrDeviceRemoved, an error
// that matches the verbs.Status of the first work request that failed, or, after
// Close, net.ErrClosed.
//
// Whoever has polled a completion with an error finds Err set. Once all work
// requests have completed, Wait on the connection's own CQs returns an error that
// matches Err; on some devices a Wait for one CQ first needs the completions of the
// other to be polled. On CQs of the caller's Wait does not end,
// for they may serve other connections: select on Done.
func (c *Conn) Err() error {
	c.ending.mu.Lock()
	defer c.ending.mu.Unlock()
	return c.ending.cause
}

// note keeps the cause of an end that is about to come.
func (e *ending) note(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep(cause)
}

func (e *ending) keep(cause error) {
	if e.cause == nil {
		e.cause = cause
	}
}

// isOpen tells that the cause is still to be found.
func (e *ending) isOpen() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.begun && e.cause == nil
}

func (e *ending) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true
}

// end is for when the queue pair is in the error state, or gone.
func (e *ending) end(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep(cause)
	if e.over {
		return
	}
	e.over = true
	close(e.done)
	for _, cq := range e.cqs {
		hooks.End(cq, e.cause)
	}
}

// add has cq end with the connection.
func (e *ending) add(cq *uverbs.CQ) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cqs == nil {
		e.cqs = e.room[:0]
	}
	e.cqs = append(e.cqs, cq)
	if e.over {
		hooks.End(cq, e.cause)
	}
}

// fail ends the connection because of its queue pair. While it is being set up, the
// outcome of that counts.
func (e *ending) fail(cause error) {
	e.mu.Lock()
	if !e.stands {
		e.failed = cause
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	e.end(cause)
}

// stand begins the life of the connection.
func (e *ending) stand() {
	e.mu.Lock()
	e.stands = true
	failed := e.failed
	e.mu.Unlock()
	if failed != nil {
		e.end(failed)
	}
}

// watch has the first completion that fails end the connection. A flush on iWARP
// means that the kernel has ended it and is about to say so. On InfiniBand and RoCE
// such an end is noted before the queue pair is flushed; so, there, an unexplained
// flush means that the queue pair failed as it served the peer.
func (c *Conn) watch() {
	c.ending.begin()
	iwarp := c.id.isIWARP()
	hooks.OnError(c.qp, func(s error) {
		sign := ErrDisconnected
		if !iwarp || s != verbs.StatusWRFlushErr {
			sign = fmt.Errorf("rdmacm: the queue pair failed: %w", s)
		}
		c.ending.fail(c.because(sign))
	})
}
