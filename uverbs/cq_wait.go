package uverbs

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// Wait takes completions off the CQ and stores them in wcs, which must have room for one. It
// blocks the goroutine until the CQ has a completion, ctx is done, or the CQ is closed. On a
// CQ that belongs to an rdmacm.Conn, it also returns when the connection has ended and no
// more completions will arrive. After an overflow, Wait returns the completions that the CQ still has, and then
// an error that matches ErrCQOverflow. Wait may notice cancellation, Close, and completions made in
// user space up to 500 µs late.
//
// C: ibv_req_notify_cq, ibv_get_cq_event, ibv_ack_cq_events and ibv_poll_cq
func (cq *CQ) Wait(ctx context.Context, wcs []verbs.WC) (int, error) {
	if len(wcs) == 0 || cq.isZero() {
		return 0, cq.fail("wait for", syscall.EINVAL, "no room for a completion")
	}
	cq.events.Join()
	defer cq.events.Leave()
	for ending := 0; ; {
		if n, err := cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		if err := cq.Arm(false); err != nil {
			return 0, err
		}
		if n, err := cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		cause := cq.ended.Load()
		if cause == nil {
			if err := cq.events.Wait(ctx); err != nil {
				return 0, cq.waitFailed(ctx, "wait for", err)
			}
			continue
		}
		if ending = cq.countIdle(ending); ending == idleChecks {
			return 0, cq.fail("wait for", *cause, "")
		}
		if err := cq.waitIdle(ctx); err != nil {
			return 0, cq.waitFailed(ctx, "wait for", err)
		}
	}
}

// waitFailed returns the error of a wait. If ctx caused it, the error matches ctx.Err().
func (o *object) waitFailed(ctx context.Context, op string, err error) error {
	switch {
	case ctx.Err() != nil && err == ctx.Err():
		return o.fail(op, err, "")
	case errors.Is(err, os.ErrClosed):
		err = verbs.ErrClosed
	}
	return o.fail(op, err, "")
}

// end implements hooks.End.
func (cq *CQ) end(cause error) {
	if cq.ended.CompareAndSwap(nil, &cause) {
		cq.events.Wake()
	}
}

// A device may take a work request off its queue a moment before it writes the completion,
// or write no completion for the last one. So an ended CQ must be found idle more than once,
// with a pause between.
const (
	idleChecks = 2
	idlePause  = time.Millisecond
)

// countIdle returns the number of checks in a row that found the CQ idle.
func (cq *CQ) countIdle(before int) int {
	if cq.isIdle() {
		return before + 1
	}
	return 0
}

// waitIdle waits for an event, but at most for idlePause.
func (cq *CQ) waitIdle(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, idlePause)
	defer cancel()
	err := cq.events.Wait(short)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// isIdle reports whether all QPs of the CQ have failed or are closed, and have no work
// requests outstanding. After an overflow nothing more is waited for.
func (cq *CQ) isIdle() bool {
	if cq.overflowed.Load() {
		return true
	}
	cq.mu.Lock()
	qps := slices.Collect(maps.Values(cq.qps))
	cq.mu.Unlock()
	return !slices.ContainsFunc(qps, func(qp *QP) bool { return !qp.isIdle() })
}

func (qp *QP) isIdle() bool {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	if qp.closed || !qp.hasFailed() {
		return qp.closed
	}
	if slices.ContainsFunc(qp.cqs(), func(cq *CQ) bool { return cq.overflowed.Load() }) {
		return true // some of the work requests may never complete
	}
	ring, ok := qp.ring.(driver.Idler)
	return !ok || ring.Idle()
}
