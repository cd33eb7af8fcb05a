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

// Wait takes completions off the CQ. It waits until there is at least one, ctx is
// done, the CQ is closed, or no completion is to come because the CQ is one of an
// rdmacm.Conn's own and the connection has ended. It parks the goroutine. Cancellation, Close and completions made in user space may be
// noticed up to 500 µs late. A call without room in wcs is refused.
//
// C: ibv_req_notify_cq, ibv_get_cq_event, ibv_ack_cq_events and ibv_poll_cq
func (cq *CQ) Wait(ctx context.Context, wcs []verbs.WC) (int, error) {
	if len(wcs) == 0 {
		return 0, cq.fail("wait for", syscall.EINVAL, "there is no room for a completion")
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
		if ending = cq.looks(ending); ending == looksAtEnd {
			return 0, cq.fail("wait for", *cause, "")
		}
		if err := cq.waitAtEnd(ctx); err != nil {
			return 0, cq.waitFailed(ctx, "wait for", err)
		}
	}
}

// waitFailed is the error of a wait. The end of the caller's context is returned as it
// is.
func (o *object) waitFailed(ctx context.Context, op string, err error) error {
	switch {
	case ctx.Err() != nil && err == ctx.Err():
		return err
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

// A device may take a work request off its queue a moment before it writes the
// completion, or complete the last one without a completion. So Wait looks more
// than once, with a pause between.
const (
	looksAtEnd = 2
	pauseAtEnd = time.Millisecond
)

// looks counts the looks in a row that found nothing more to come.
func (cq *CQ) looks(before int) int {
	if cq.isIdle() {
		return before + 1
	}
	return 0
}

// waitAtEnd waits for an event, but not for long.
func (cq *CQ) waitAtEnd(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, pauseAtEnd)
	defer cancel()
	err := cq.events.Wait(short)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// isIdle tells that no QP of the CQ has a work request outstanding, nor will have
// one carried out.
func (cq *CQ) isIdle() bool {
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
	if qp.closed || !qp.failing() {
		return qp.closed
	}
	ring, ok := qp.ring.(driver.Idler)
	return !ok || ring.Idle()
}
