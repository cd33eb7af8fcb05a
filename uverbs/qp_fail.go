package uverbs

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/verbs"
)

// failure is a failed completion's QP, and the generation of the QP that the completion
// belongs to.
type failure struct {
	qp         *QP
	generation uint32
}

// failures returns the QPs that have failed according to the failed completions among wcs. The caller holds the CQ's
// lock since it took wcs off the ring, because the numbers may belong to other QPs later.
func (cq *CQ) failures(wcs []verbs.WC) (failed []failure) {
	for i := range wcs {
		if wcs[i].Status != verbs.StatusSuccess {
			if qp := cq.qps[wcs[i].QPN]; qp != nil && (qp.survivor == nil || !qp.survivor.Survives(&wcs[i])) {
				qp.errorOnce.note(wcs[i].Status)
				if wcs[i].Opcode&verbs.WCRecv != 0 {
					qp.recvFailed.Store(true)
				}
				failed = append(failed, failure{qp, qp.generation.Load()})
			}
		}
	}
	return failed
}

// handleFailures moves the QPs to ERR, flushes them and reports their first errors. The
// caller holds no lock of a queue.
func handleFailures(failures []failure) { reportFailures(failures, nil) }

// reportFailures is handleFailures that also looks on the CQs of a QP whose failure is known from elsewhere,
// unless qp is nil.
func reportFailures(failures []failure, qp *QP) {
	var looked []*QP // each QP's CQs are looked at once, which also finds the causes of others
	var drained []*CQ
	look := func(qp *QP) {
		looked = append(looked, qp)
		found, cqs := qp.findCause()
		failures, drained = append(failures, found...), append(drained, cqs...)
		if qp.errorOnce.isFlush() {
			qp.dev.events.reader.Sync() // an event may be the cause
		}
	}
	if qp != nil {
		look(qp)
	}
	for i := 0; i < len(failures); i++ {
		if qp := failures[i].qp; qp.errorOnce.isFlush() && !slices.Contains(looked, qp) {
			look(qp)
		}
	}
	for _, f := range failures {
		if f.qp.flushedByErr && !f.qp.hasFailed() {
			f.qp.awaitErr(f.generation)
		}
		f.qp.onError(f.generation)
		f.qp.errorOnce.report()
	}
	for _, cq := range drained {
		cq.mu.Lock()
		cq.reporting--
		cq.mu.Unlock()
		cq.reported.Broadcast()
	}
}

// awaitReports waits until the errors of completions that findCause has taken off the ring are reported. The
// caller holds the CQ's lock.
func (cq *CQ) awaitReports(wcs []verbs.WC) {
	if slices.ContainsFunc(wcs, func(wc verbs.WC) bool { return wc.Status != verbs.StatusSuccess }) {
		for cq.reporting > 0 {
			cq.reported.Wait()
		}
	}
}

// findCause looks on the QP's CQs for the completion that explains a flush, and returns all failures found
// there and the CQs, for reportFailures. The work request that failed first may have completed on the CQ that
// nobody has polled yet. The next polls return the completions that are taken off a ring here.
func (qp *QP) findCause() (found []failure, drained []*CQ) {
	if qp.hasRanDry() { // before the CQs are looked at, which then have the receives that were flushed
		qp.ranDry.Store(true)
	}
	for _, cq := range qp.cqs() {
		cq.mu.Lock()
		if !cq.closed {
			found = append(found, cq.drain()...)
			drained = append(drained, cq)
			cq.reporting++
		}
		cq.mu.Unlock()
	}
	return found, drained
}

// hasRanDry reports whether the receive queue of an iWARP QP is empty.
func (qp *QP) hasRanDry() bool {
	ring, ok := qp.ring.(driver.RecvEmptier)
	if !ok || qp.srq != nil {
		return false
	}
	qp.rq.Lock()
	defer qp.rq.Unlock()
	return !qp.closed && ring.RecvEmpty()
}

// onError moves the QP to ERR and flushes it, unless its device does that by itself.
// It returns once the QP has been flushed, by this goroutine or another. Errors from
// before the last RESET are ignored.
func (qp *QP) onError(generation uint32) {
	if qp.hasFailed() {
		return
	}
	if !qp.needsFlush() { // nothing to flush, so no lock: a model may complete work within a post
		qp.setFailed(generation)
		return
	}
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	if qp.generation.Load() != generation || qp.closed || qp.hasFailed() {
		return
	}
	_ = qp.moveToErr() // an error means that the QP can't fail any further
	qp.enteredErr()
}

// enteredErr flushes a QP that has just been moved to ERR. The caller holds both queues,
// and has held them since before the move.
func (qp *QP) enteredErr() {
	if qp.closed || qp.hasFailed() {
		return
	}
	qp.flush()
	qp.setFailed(qp.generation.Load())
	qp.setFastPath()
}

// needsFlush reports whether the device leaves work requests of a failed QP on its queues.
func (qp *QP) needsFlush() bool { return qp.flusher != nil || qp.flushedByErr }

// flush appends to the CQs the completions that the provider makes for the device. The
// caller holds both queues.
func (qp *QP) flush() {
	if qp.flusher == nil {
		return
	}
	f := qp.flusher.Flush()
	qp.sendCQ.complete(f.Send)
	if qp.recvCQ != nil {
		qp.recvCQ.complete(f.Recv)
	}
	if len(f.Recv) > 0 {
		qp.recvFailed.Store(true)
	}
}

// hasFailed reports whether the QP has failed since the last RESET and has been flushed.
func (qp *QP) hasFailed() bool { return qp.failedIn.Load() == uint64(qp.generation.Load())+1 }

// setFailed records that the QP failed in a generation, unless it has failed in a later one.
func (qp *QP) setFailed(generation uint32) {
	for old := qp.failedIn.Load(); old < uint64(generation)+1 && !qp.failedIn.CompareAndSwap(old, uint64(generation)+1); {
		old = qp.failedIn.Load()
	}
}

func (qp *QP) moveToErr() error {
	return qp.modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState, nil)
}

// onFatalEvent is onError for an asynchronous event. An event does not say when it was
// raised, and may have waited for a reader since before a RESET. So the kernel is asked for
// the QP's state, unless the QP has never been in RESET since it was created.
func (qp *QP) onFatalEvent() {
	generation := qp.generation.Load()
	if qp.flushedByErr && qp.awaitErr(generation) || generation == 0 || qp.inError() {
		qp.onError(generation)
	}
}

// awaitErr waits at most 100 ms until the kernel has moved a QP to ERR because of a failure, and reports whether it has.
// rxe reports a request that it refuses before it answers the peer, by a failed receive or, since Linux 7.3, by an
// event. In ERR it answers nothing, so a move in between would let the peer repeat its request until its retries are
// exhausted. A RESET ends the wait.
func (qp *QP) awaitErr(generation uint32) bool {
	for range 100 {
		qp.rq.Lock() // keeps the handle: Close takes it first
		failed := qp.closed || qp.generation.Load() != generation || qp.isErr(qp.issueQuery())
		qp.rq.Unlock()
		if failed {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// inError reports whether the QP has failed according to the kernel, or the kernel does not know.
func (qp *QP) inError() bool { return qp.isErr(qp.Query()) }

// isErr returns what the answer to a query means for inError. Linux 6.1's siw reports RESET for every QP.
func (qp *QP) isErr(attr *verbs.QPAttr, err error) bool {
	switch {
	case err != nil:
		return true
	case attr.State == verbs.QPStateReset:
		return verbs.QPState(qp.state.Load()) != verbs.QPStateReset
	}
	return attr.State == verbs.QPStateErr || attr.State == verbs.QPStateSQE
}

// onOverflow ends the waits on a CQ that has lost completions, and fails those of its QPs that belong to a
// connection. Other QPs remain as they are, as they do in C.
func (cq *CQ) onOverflow() {
	cause := cq.fail("use", verbs.ErrCQOverflow, fmt.Sprintf("it has room for %d completions, and others are lost", cq.Cap()))
	cq.overflowed.Store(true)
	var failed []failure
	cq.mu.Lock()
	for _, qp := range cq.qps {
		if qp.errorOnce.isHandled() {
			qp.errorOnce.note(cause)
			failed = append(failed, failure{qp, qp.generation.Load()})
		}
	}
	cq.mu.Unlock()
	for _, f := range failed {
		f.qp.onError(f.generation)
		f.qp.errorOnce.report()
	}
	cq.end(cause)
}

// setFastPath recomputes whether posts may take the fast path, which those to a zero value
// never do. The caller holds both queues. Posts to a failed QP that needs no flush take the
// fast path: its device completes them.
func (qp *QP) setFastPath() { qp.fastPath = !qp.closed && !(qp.needsFlush() && qp.hasFailed()) }

func (qp *QP) postSendSlow(wrs []verbs.SendWR) (int, error) {
	return qp.postSlow(qp.sendCQ, len(wrs), func(from, to int) (int, error) { return qp.ring.PostSend(wrs[from:to]) })
}

func (qp *QP) postRecvSlow(wrs []verbs.RecvWR) (int, error) {
	return qp.postSlow(qp.recvCQ, len(wrs), func(from, to int) (int, error) { return qp.ring.PostRecv(wrs[from:to]) })
}

// postSlow posts all work requests to a QP whose fastPath is not set. It calls post for a range
// of them at a time.
func (qp *QP) postSlow(cq *CQ, all int, post func(from, to int) (int, error)) (int, error) {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	switch {
	case qp.closed, qp.ring == nil:
		return 0, verbs.ErrClosed
	case qp.fastPath, cq == nil: // the QP was put into RESET meanwhile, or has no such queue
		return post(0, all)
	}
	return qp.postFlushed(min(all, cq.room()), all, post)
}

// postFlushed posts up to some work requests to a failed QP and flushes them at once. No
// device limits the caller any more, so the room on the CQ does.
func (qp *QP) postFlushed(some, all int, post func(from, to int) (int, error)) (n int, err error) {
	for n < some {
		var queued int
		queued, err = post(n, some)
		n += queued
		if queued > 0 {
			qp.flushPosted()
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

// flushPosted flushes what was posted to a failed QP. The caller holds both queues.
func (qp *QP) flushPosted() {
	if qp.flushedByErr {
		_ = qp.moveToErr()
	}
	qp.flush()
}

func init() {
	hooks.Set(hooks.Calls[*QP, *CQ]{
		OnError: func(qp *QP, f func(error)) { qp.errorOnce.setHandler(f) },
		Look: func(qp *QP) {
			reportFailures(nil, qp)
			qp.errorOnce.report() // what an event has found, whose goroutine may not have reported it yet
		},
		RecvEmpty: func(qp *QP) bool { return qp.ranDry.Load() && !qp.recvFailed.Load() },
		End:       (*CQ).end,
		Wake:      func(cq *CQ) { cq.events.Wake() },
	})
}

// errorOnce passes a QP's first error to a handler, once: the status of a failed completion, or the overflow
// of a CQ. A flush is a consequence, so any other error goes before it. It implements hooks.OnError.
type errorOnce struct {
	mu      sync.Mutex
	err     error
	handler func(error)
	done    chan struct{} // closed when handler has returned
}

func (e *errorOnce) setHandler(f func(error)) {
	e.mu.Lock()
	e.handler = f
	e.mu.Unlock()
	e.report()
}

// note keeps the first error that is not a flush, or a flush if there is no other. The caller holds the
// CQ's lock, so that the order is that of the completions.
func (e *errorOnce) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil || e.err == verbs.StatusWRFlushErr && e.done == nil {
		e.err = err
	}
}

// isFlush reports whether a flush is all that is known, and was not reported yet.
func (e *errorOnce) isFlush() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err == verbs.StatusWRFlushErr && e.done == nil && e.handler != nil
}

func (e *errorOnce) isHandled() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.handler != nil
}

// report calls the handler if there is an error to report, or waits until another
// goroutine's call has returned. The caller holds no lock.
func (e *errorOnce) report() {
	e.mu.Lock()
	handler, done := e.handler, e.done
	switch {
	case handler == nil || e.err == nil:
		e.mu.Unlock()
		return
	case done != nil:
		e.mu.Unlock()
		<-done
		return
	}
	done = make(chan struct{})
	e.done = done
	e.mu.Unlock()
	defer close(done)
	handler(e.err)
}
