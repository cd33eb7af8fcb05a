package perf

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/farewell"
	"github.com/goverbs/goverbs/verbs"
)

// Why a run may end early.
var (
	errPeerGone = errors.New("the peer went away in the middle of the test, and should have said there why")
	errStalled  = errors.New("nothing has moved for a minute")
	errLost     = errors.New("the peer is done, but not all that it sent has arrived: this service loses what finds no receive (-r here, -t there)")
	errUnlike   = errors.New("the peer is done, but this end is not: were both given the same options?")
)

const (
	// peerGrace is the time for the peer's last messages, sent before it left, to
	// appear in the CQs or in memory.
	peerGrace = time.Second
	// wordLimit is how long the peer's farewell may take, or this end's to
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
func (c *course) guarded(r *run) error {
	stop := c.way.watch(func(err error) {
		switch {
		case farewell.Is(err):
			r.cancel(err)
		case err != nil:
			time.AfterFunc(peerGrace, func() { r.cancel(fmt.Errorf("%w (%w)", errPeerGone, err)) })
		case c.Test.Duration: // the peer's time is up sooner
		case c.Type == verbs.QPTypeRC:
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
	if err == nil || errors.Is(err, why) || !farewell.Is(why) && !errors.Is(why, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w (%w)", why, err)
}

// alone reports whether the peer's QP may be the one that failed or was closed. siw
// reports that as an operation that the local QP can't carry out.
func alone(err error) bool {
	for _, sign := range []error{verbs.StatusWRFlushErr, verbs.StatusRetryExcErr, verbs.StatusRNRRetryExcErr, verbs.StatusLocQPOpErr, syscall.ENOTCONN} {
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
