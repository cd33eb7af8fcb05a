package uverbs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/goverbs/goverbs/internal/driver"
)

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
