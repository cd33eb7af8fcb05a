package uverbs

import (
	"sync"

	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/verbs"
)

func init() {
	hooks.OnError = func(qp hooks.QP, f func(error)) { qp.(*QP).first.listen(f) }
	hooks.End = func(cq hooks.CQ, cause error) { cq.(*CQ).end(cause) }
	hooks.Wake = func(cq hooks.CQ) { cq.(*CQ).events.Wake() }
}

// firstError is the first completion of a QP that was no success, for hooks.OnError.
type firstError struct {
	mu     sync.Mutex
	status verbs.Status
	hear   func(error)
	heard  chan struct{} // closed when hear has returned
}

func (e *firstError) listen(f func(error)) {
	e.mu.Lock()
	e.hear = f
	e.mu.Unlock()
	e.tell()
}

// note keeps the first status. It is called with the CQ's lock held, so that the
// first is the first.
func (e *firstError) note(s verbs.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status == verbs.StatusSuccess {
		e.status = s
	}
}

// tell calls hear, or waits until another goroutine has. No lock may be held.
func (e *firstError) tell() {
	e.mu.Lock()
	hear, heard := e.hear, e.heard
	switch {
	case hear == nil || e.status == verbs.StatusSuccess:
		e.mu.Unlock()
		return
	case heard != nil:
		e.mu.Unlock()
		<-heard
		return
	}
	heard = make(chan struct{})
	e.heard = heard
	e.mu.Unlock()
	defer close(heard)
	hear(e.status)
}
