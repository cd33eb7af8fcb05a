package conn

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/uverbs"
)

var hook = hooks.Get[*uverbs.QP, *uverbs.CQ]()

// Ending is the end of a connection. The first cause counts: an event, a completion that failed,
// or a call of the program. It is stored before the queue pair moves to the error state, so a
// program that sees a flushed work request finds the cause. Done is closed after the move.
type Ending struct {
	done chan struct{}

	mu          sync.Mutex // guards the fields below
	hasQP       bool       // if set, the connection's device is known
	cause       error
	over        bool         // done is closed
	established bool         // the set-up is over
	failed      error        // the queue pair's error during the set-up
	cqs         []*uverbs.CQ // the connection's own
	room        [2]*uverbs.CQ
}

// Init must be called first.
func (e *Ending) Init() { e.done = make(chan struct{}) }

// Done returns the channel that End closes.
func (e *Ending) Done() <-chan struct{} { return e.done }

// Cause returns the cause of the end, or nil.
func (e *Ending) Cause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}

// Explain returns the cause of the end, or err itself before the end. All calls to a removed device fail
// with EIO, possibly before the cause is stored; the error then matches removed as well.
func (e *Ending) Explain(err, removed error) error {
	if cause := e.Cause(); cause != nil {
		return cause
	}
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", removed, err)
	}
	return err
}

// Note stores the cause of an end that is about to happen.
func (e *Ending) Note(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setCause(cause)
}

func (e *Ending) setCause(cause error) {
	if e.cause == nil {
		e.cause = cause
	}
}

// IsOpen reports whether there is a queue pair and no cause yet.
func (e *Ending) IsOpen() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hasQP && e.cause == nil
}

// Begin notes that there is a queue pair.
func (e *Ending) Begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hasQP = true
}

// End ends the connection, once the queue pair is in the error state or gone.
func (e *Ending) End(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.setCause(cause)
	if e.over {
		return
	}
	e.over = true
	close(e.done)
	for _, cq := range e.cqs {
		hook.End(cq, e.cause)
	}
}

// Add makes the waits on cq end with the connection.
func (e *Ending) Add(cq *uverbs.CQ) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cqs == nil {
		e.cqs = e.room[:0]
	}
	e.cqs = append(e.cqs, cq)
	if e.over {
		hook.End(cq, e.cause)
	}
}

// Fail ends the connection because its queue pair failed. During set-up it only stores the
// cause, because the outcome of the set-up decides.
func (e *Ending) Fail(cause error) {
	e.mu.Lock()
	if !e.established {
		e.failed = cause
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	e.End(cause)
}

// IsEstablished reports whether the set-up is over.
func (e *Ending) IsEstablished() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.established
}

// Establish marks the set-up as over, and ends the connection if its queue pair has failed already.
func (e *Ending) Establish() {
	e.mu.Lock()
	e.established = true
	failed := e.failed
	e.mu.Unlock()
	if failed != nil {
		e.End(failed)
	}
}
