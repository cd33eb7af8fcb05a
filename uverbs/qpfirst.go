package uverbs

import "sync"

// firstError is the first completion of a QP that was no success.
type firstError struct {
	mu     sync.Mutex
	status Status
	told   bool
	hear   func(Status)
}

// OnError has f called with the status of the QP's first completion that is no
// success, before the Poll or Wait that took it returns. So whoever has seen such a
// completion finds done what f does. f must not call the QP, nor wait. A later call
// replaces f.
func (qp *QP) OnError(f func(Status)) {
	qp.first.mu.Lock()
	defer qp.first.mu.Unlock()
	qp.first.hear = f
	qp.first.pass()
}

// note keeps the first status. It is called with the CQ's lock held, so that the
// first is the first.
func (e *firstError) note(s Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status == StatusSuccess {
		e.status = s
	}
}

// tell calls f, or waits until another goroutine has. Nobody's queues may be held.
func (e *firstError) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pass()
}

func (e *firstError) pass() {
	if !e.told && e.status != StatusSuccess && e.hear != nil {
		e.told = true
		e.hear(e.status)
	}
}
