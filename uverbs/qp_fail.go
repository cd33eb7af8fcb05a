package uverbs

import (
	"errors"
	"sync"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/verbs"
)

// failed notes that the QP has failed, and lets the provider complete what the device
// will not, where it has to. A failed completion, a fatal event and a move to the error
// state call it. Errors from before the last RESET are ignored.
//
// It returns once the QP has been flushed, by this goroutine or another. A refused post
// calls it, and then posts what is to be flushed.
func (qp *QP) failed(life uint32) {
	if qp.failing() {
		return
	}
	if qp.flusher == nil { // nothing to flush, so no lock: a device in software may complete within a post
		qp.noteFailed(life)
		return
	}
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	if qp.life.Load() == life {
		qp.beginFailing(qp.moveToErr)
	}
}

// beginFailing is failed with both queues held. move puts the QP into ERR.
func (qp *QP) beginFailing(move func() error) {
	if qp.closed || qp.failing() {
		return
	}
	if qp.flusher != nil {
		qp.flush(move)
	}
	qp.noteFailed(qp.life.Load())
	qp.setOdd()
}

// failing reports whether the QP is in the error state, and flushed where the provider has to.
func (qp *QP) failing() bool { return qp.failedIn.Load() == uint64(qp.life.Load())+1 }

// noteFailed ignores what is older than the last RESET.
func (qp *QP) noteFailed(life uint32) {
	for old := qp.failedIn.Load(); old < uint64(life)+1 && !qp.failedIn.CompareAndSwap(old, uint64(life)+1); {
		old = qp.failedIn.Load()
	}
}

func (qp *QP) moveToErr() error {
	return qp.modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState, nothingMore)
}

// heardOfEnd is failed for an asynchronous event. Nothing in an event tells when it was
// raised, and it may have waited for a reader since before a RESET. So the kernel is
// asked what state the QP is in now, unless this is the QP's first life.
func (qp *QP) heardOfEnd() {
	life := qp.life.Load()
	if life == 0 || qp.inError() {
		qp.failed(life)
	}
}

// inError takes a QP of which the kernel can't say for a failed one. Linux 6.1's siw says
// RESET of all.
func (qp *QP) inError() bool {
	attr, err := qp.Query()
	switch {
	case err != nil:
		return true
	case attr.State == verbs.QPStateReset:
		return verbs.QPState(qp.state.Load()) != verbs.QPStateReset
	}
	return attr.State == verbs.QPStateErr || attr.State == verbs.QPStateSQE
}

// flush has the provider take back what the device will not complete. Both queues
// are held.
func (qp *QP) flush(move func() error) {
	f := qp.flusher.Fail(move)
	qp.sendCQ.complete(f.Send)
	if qp.recvCQ != nil {
		qp.recvCQ.complete(f.Recv)
	}
}

// setOdd recomputes whether posts must take the slow path. Both queues are held. The device
// itself flushes what is posted to a failed QP where the provider is no Flusher.
func (qp *QP) setOdd() { qp.odd = qp.closed || qp.flusher != nil && qp.failing() }

func (qp *QP) postSendOdd(wrs []verbs.SendWR) (int, error) {
	return qp.postOdd(qp.sendCQ, len(wrs), func(from, to int) (int, error) { return qp.ring.PostSend(wrs[from:to]) })
}

func (qp *QP) postRecvOdd(wrs []verbs.RecvWR) (int, error) {
	return qp.postOdd(qp.recvCQ, len(wrs), func(from, to int) (int, error) { return qp.ring.PostRecv(wrs[from:to]) })
}

// postOdd is a post that went no further than to see odd; post posts some of all work
// requests.
func (qp *QP) postOdd(cq *CQ, all int, post func(from, to int) (int, error)) (int, error) {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	switch {
	case qp.closed:
		return 0, verbs.ErrClosed
	case !qp.odd, cq == nil: // put into RESET meanwhile; or without such a queue
		return post(0, all)
	}
	return qp.postFlushed(min(all, cq.room()), all, post)
}

// postFlushed has what is posted to a failed QP flushed at once. No device holds the
// poster up any more, so the room on the CQ does.
func (qp *QP) postFlushed(some, all int, post func(from, to int) (int, error)) (n int, err error) {
	for n < some {
		var queued int
		queued, err = post(n, some)
		n += queued
		if queued > 0 {
			qp.flush(qp.moveToErr)
		}
		flushed := err == nil || err == driver.ErrQPFailing || errors.Is(err, verbs.ErrQueueFull)
		if queued == 0 || !flushed {
			return n, err
		}
	}
	if some < all {
		return n, verbs.ErrQueueFull
	}
	return n, nil
}

// failure is the news of a failed completion, with the life that it tells of.
type failure struct {
	qp   *QP
	life uint32
}

// tell passes news on. Nobody's queues may be held.
func tell(failures []failure) {
	for _, f := range failures {
		f.qp.failed(f.life)
		f.qp.first.tell()
	}
}

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
