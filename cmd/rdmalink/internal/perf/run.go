package perf

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// run is the measuring of one size.
type run struct {
	*end
	size    int
	ctx     context.Context // ends with the user's, the peer or the time
	cancel  context.CancelCauseFunc
	stopped atomic.Bool // ctx is over
	done    *Progress
	watch   stopwatch

	stamps    []int64 // before each message
	completed []int64 // of bandwidth: the time at which each message was known to be complete
	began     int64   // of bandwidth
	ended     int64
	wcs       [pollBatch]verbs.WC
	one       [1]verbs.WC
}

// pollBatch is how many completions are taken off at a time.
//
// C: CTX_POLL_BATCH
const pollBatch = 16

// newRun allocates all that the measuring needs.
func newRun(ctx context.Context, e *end, size int, done *Progress) *run {
	r := &run{end: e, size: size, done: done}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(r.ctx, func() { r.stopped.Store(true) })
	if e.Test.Duration {
		return r
	}
	switch {
	case e.Latency:
		r.stamps = make([]int64, e.Iters)
	case !e.NoPeak && e.sender():
		r.stamps, r.completed = make([]int64, e.total()), make([]int64, e.total())
	}
	return r
}

// sender reports whether this end posts the messages of a bandwidth test.
func (o *Options) sender() bool { return o.client() || o.Bidirectional }

// total is how many messages an end sends, or receives: 0 if the time decides.
func (o *Options) total() int {
	if o.Test.Duration {
		return 0
	}
	return o.Iters * o.QPCount
}

// last is the number of a flow's last message, 0 if the time decides.
func (o *Options) last() int {
	if o.Test.Duration {
		return 0
	}
	return o.Iters
}

// more reports whether a flow has messages left.
func (o *Options) more(n int) bool { return n < o.Iters || o.Test.Duration }

// next waits for completions, none of which is a failure. Where the time
// decides there may always be one: rxe of Linux 6.1 completes within the doorbell.
func (r *run) next(cq *uverbs.CQ, wcs []verbs.WC) (int, error) {
	if r.Test.Duration && r.stopped.Load() {
		return 0, context.Cause(r.ctx)
	}
	if r.Events {
		n, err := cq.Wait(r.ctx, wcs)
		if err != nil && r.ctx.Err() != nil {
			err = context.Cause(r.ctx)
		}
		return n, check(wcs[:n], err)
	}
	for {
		n, err := cq.Poll(wcs)
		if n > 0 || err != nil {
			return n, check(wcs[:n], err)
		}
		if r.stopped.Load() {
			return 0, context.Cause(r.ctx)
		}
	}
}

// look polls for completions.
func (r *run) look(cq *uverbs.CQ, wcs []verbs.WC) (int, error) {
	if r.stopped.Load() {
		return 0, context.Cause(r.ctx)
	}
	n, err := cq.Poll(wcs)
	return n, check(wcs[:n], err)
}

func check(wcs []verbs.WC, err error) error {
	for i := range wcs {
		if wcs[i].Status != verbs.StatusSuccess {
			return explainWC(&wcs[i])
		}
	}
	return err
}

// explainWC adds likely causes to the error of a failed completion.
func explainWC(wc *verbs.WC) error {
	err := wc.Err()
	switch wc.Status {
	case verbs.StatusRetryExcErr:
		return fmt.Errorf("%w: the peer is gone, or its GID can't be reached from this one (-x)", err)
	case verbs.StatusLocLenErr, verbs.StatusLocQPOpErr, verbs.StatusRemInvReqErr, verbs.StatusRemOpErr, verbs.StatusRemAccessErr:
		return fmt.Errorf("%w: do both ends have the same options?", err)
	}
	return err
}

// measure runs the loop of the test.
func (r *run) measure() error {
	switch {
	case r.Latency && r.Verb == perftest.Send:
		return r.sendLatency()
	case r.Latency && r.Verb == perftest.Write:
		return r.writeLatency()
	case r.Latency:
		return r.opLatency()
	case r.Verb != perftest.Send || r.client() && !r.Bidirectional:
		return r.sendBandwidth()
	case r.Bidirectional:
		return r.bothBandwidth()
	}
	return r.recvBandwidth()
}

// startTime has the time decide, if it does.
func (r *run) startTime() {
	if r.Test.Duration {
		r.watch.start(r.ctx, r.Time, r.Margin, r.cancel)
	}
}
