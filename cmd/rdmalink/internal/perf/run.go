package perf

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/giveup"
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

// total returns the number of messages that an end sends, or receives: 0 for a timed run.
func (o *Options) total() int {
	if o.Test.Duration {
		return 0
	}
	return o.Iters * o.QPCount
}

// last returns the number of a flow's last message, 0 for a timed run.
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
	case verbs.StatusRetryExcErr, verbs.StatusRespTimeoutErr:
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

// startTime starts the stopwatch of a timed run.
func (r *run) startTime() {
	if r.Test.Duration {
		r.watch.start(r.ctx, r.Time, r.Margin, r.cancel)
	}
}

// Why a run may end early.
var (
	errPeerGone = errors.New("the peer left in the middle of the test; its output should say why")
	errStalled  = errors.New("nothing has moved for a minute")
	errLost     = errors.New("the peer is done, but not all of its messages arrived: this service drops those for which no receive is posted (-r here, -t there)")
	errUnlike   = errors.New("the peer is done, but this end is not: were both given the same options?")
)

const (
	// peerGrace is the time for the peer's last messages, sent before it left, to
	// appear in the CQs or in memory.
	peerGrace = time.Second
	// wordLimit is how long the peer's give-up message may take, or this end's to
	// the peer. Nobody waits for it once the connection has ended.
	wordLimit = 5 * time.Second
	// stallLimit is how long a run may make no progress, and doneLimit when
	// the peer is done.
	stallLimit = time.Minute
	doneLimit  = 10 * time.Second
	lostLimit  = 3 * time.Second
)

// counted returns an error if no message was completed in the measured time.
func (r *run) counted() error {
	if r.Test.Duration && r.watch.counted == 0 {
		return fmt.Errorf("no message was completed in the %v of %v that count: give -D more time", r.Time-2*r.Margin, r.Time)
	}
	return nil
}

// guarded measures while it watches that the peer is there and something moves.
func (c *measurement) guarded(r *run) error {
	stop := c.path.watch(func(err error) {
		switch {
		case giveup.Is(err):
			r.cancel(err)
		case err != nil:
			time.AfterFunc(peerGrace, func() { r.cancel(fmt.Errorf("%w (%w)", errPeerGone, err)) })
		case c.Test.Duration: // the peer's time is up sooner
		case !c.lossy():
			go r.watchProgress(doneLimit, errUnlike)
		default:
			go r.watchProgress(lostLimit, errLost)
		}
	})
	defer stop()
	go r.watchProgress(stallLimit, errStalled)
	err := r.measure()
	if errors.Is(err, errTimeUp) || r.watch.over() && !errors.Is(err, context.Canceled) {
		return nil
	}
	return r.blame(err)
}

// blame determines whether a failure was caused by the peer's. The peer reports its
// failure before it closes its QPs, but this end may see the failed operation
// first.
func (r *run) blame(err error) error {
	if alone(err) {
		select {
		case <-r.ctx.Done():
		case <-time.After(wordLimit):
		}
	}
	why := context.Cause(r.ctx)
	if err == nil || errors.Is(err, why) || !giveup.Is(why) && !errors.Is(why, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w (%w)", why, err)
}

// alone reports whether the peer's QP may be the one that failed or was closed. siw
// reports that as an operation that the local QP can't carry out, EFA as an invalid datagram request or as a
// response that did not come.
func alone(err error) bool {
	for _, sign := range []error{verbs.StatusWRFlushErr, verbs.StatusRetryExcErr, verbs.StatusRNRRetryExcErr, verbs.StatusLocQPOpErr,
		verbs.StatusRemInvRDReqErr, verbs.StatusRespTimeoutErr, syscall.ENOTCONN} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

// watchProgress ends a run that has not moved for so long.
func (r *run) watchProgress(limit time.Duration, why error) {
	for last := r.done.Done(); ; {
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(limit):
		}
		n := r.done.Done()
		if n == last {
			r.cancel(why)
		}
		last = n
	}
}

// warmUp sends some messages that don't count.
//
// C: perform_warm_up
func (r *run) warmUp() error {
	for _, f := range r.flows {
		for f.hasRoom(r.end) {
			if err := f.send(r.end, r.TxDepth); err != nil {
				return err
			}
		}
		for f.done < f.sent {
			n, err := r.next(r.sendCQ, r.one[:])
			if err != nil {
				return fmt.Errorf("warm up: %w", err)
			}
			f.complete(n * r.CQMod)
		}
		f.prepare(r.end, r.size)
	}
	return context.Cause(r.ctx)
}

var origin = time.Now()

// now returns a monotonic time in ns. It reads only the monotonic clock.
func now() int64 { return int64(time.Since(origin)) }

// Progress counts messages. One end writes it, anybody may read it.
type Progress struct{ n atomic.Int64 }

// Done returns the number of completed messages.
func (p *Progress) Done() int64 { return p.n.Load() }

// errTimeUp ends a run of which the time decides.
var errTimeUp = errors.New("the time is up")

// stopwatch is a run of which the time decides: a warm-up, a time that counts,
// and a time for the peer to get there too.
//
// C: catch_alarm
type stopwatch struct {
	counting     atomic.Bool
	began, ended atomic.Int64
	counted      int64 // messages while counting
}

// start ends the run with cancel after the time.
func (w *stopwatch) start(ctx context.Context, total, margin time.Duration, cancel context.CancelCauseFunc) {
	go func() {
		for _, step := range []struct {
			after time.Duration
			do    func()
		}{
			{margin, func() { w.began.Store(now()); w.counting.Store(true) }},
			{total - 2*margin, func() { w.counting.Store(false); w.ended.Store(now()) }},
			{margin, func() { cancel(errTimeUp) }},
		} {
			select {
			case <-ctx.Done():
				return
			case <-time.After(step.after):
				step.do()
			}
		}
	}()
}

// count notes n messages if their time counts.
func (w *stopwatch) count(n int) {
	if w.counting.Load() {
		w.counted += int64(n)
	}
}

// over reports whether the measured interval has ended. A peer whose time ended
// sooner may have left by then; ib_write_lat leaves without a message.
func (w *stopwatch) over() bool { return w.ended.Load() != 0 }

func (w *stopwatch) ns() int64 { return w.ended.Load() - w.began.Load() }
