package msg

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// pump hands completions to connections: to one that has its queues to itself, or to all of
// a pool. One call at a time has the turn: it polls the queues, waits for events, and so
// works for all calls that wait. While no call waits, the keeper has the turn, so that
// receives are posted again and credits go out whatever the program does.
//
// The zero value is the pump of a connection that something else drives.
type pump struct {
	channel        *uverbs.CompChannel
	sendCQ, recvCQ *uverbs.CQ
	take           func(*verbs.WC)
	over           <-chan struct{} // closed when no connection is left; nil: that never happens
	ended          func(error)     // runs once, when the queues are of no more use

	turn    turn
	wanted  atomic.Int32 // calls that would take the turn from the keeper
	sends   atomic.Int32 // reasons to hear of completed sends at once
	keeping atomic.Bool  // the keeper has the turn
	waiting atomic.Bool  // whoever has the turn needs an event to notice a change
	ticking atomic.Bool  // the keeper will look again
	stopped atomic.Bool
	ending  chan struct{} // closed when ended is about to be called
	keeper  *time.Timer

	// These belong to who has the turn.
	wcs   [32]verbs.WC
	turns uint64 // how often a call had it
	seen  uint64 // of them by the keeper
}

// start begins. The program has no connection yet.
func (p *pump) start() {
	p.ending = make(chan struct{})
	p.turn.init()
	p.ticking.Store(true)
	p.keeper = time.AfterFunc(time.Hour, p.keep)
	p.keeper.Reset(keeperLag) // only now, because the keeper uses the timer
}

// stop has nobody take the turn any more, and waits for a call that has it. That call must
// have a reason to return.
func (p *pump) stop() {
	if p.keeper == nil || p.stopped.Swap(true) {
		return
	}
	p.wake()
	_ = p.turn.take(context.Background(), p.ending)
	p.keeper.Stop()
}

// retire is for when the queues are closed, which ends whoever has the turn.
func (p *pump) retire() {
	p.stopped.Store(true)
	if p.keeper != nil {
		p.keeper.Stop()
	}
}

// wake has the call or keeper that waits for an event look around, or the next one.
func (p *pump) wake() { hooks.Wake(p.recvCQ) }

// nudge is for a change that a call may wait for and that no completion of this pump made.
func (p *pump) nudge() {
	if p.waiting.Load() {
		p.wake()
	}
}

// step hands completions on, and waits for some if there are none. It may return without
// any. It returns false when the queues have ended; the caller then has no turn any more.
func (p *pump) step(ctx context.Context) bool {
	n, err := p.drain()
	if n == 0 && err == nil && p.isOver() {
		if n, err = p.drain(); n == 0 && err == nil { // nothing came before the end
			err = errEnd
		}
	}
	if n == 0 && err == nil {
		err = p.sleep(ctx)
	}
	if err == nil || err == ctx.Err() {
		return true
	}
	close(p.ending)
	go p.ended(err)
	return false
}

func (p *pump) isOver() bool { return p.over != nil && isClosed(p.over) }

// sleep arms the queues and waits for an event, unless something came meanwhile.
func (p *pump) sleep(ctx context.Context) error {
	queues := []*uverbs.CQ{p.recvCQ, p.sendCQ}
	if p.sends.Load() == 0 {
		queues = queues[:1]
	}
	for _, cq := range queues {
		if err := cq.Arm(false); err != nil {
			return err
		}
	}
	if n, err := p.empty(queues...); n > 0 || err != nil || p.isOver() {
		return err
	}
	if _, err := p.channel.Get(ctx); err != ctx.Err() {
		return err
	}
	return nil
}

// drain hands on the completions that there are. It looks for those of sends if there are
// no others, or if somebody wants to hear of them.
func (p *pump) drain() (int, error) {
	n, err := p.empty(p.recvCQ)
	if n > 0 && p.sends.Load() == 0 || err != nil {
		return n, err
	}
	sent, err := p.empty(p.sendCQ)
	return n + sent, err
}

// mostPolls is how often in a row a queue is polled that stays full. Peers that send without
// end must not keep the call that has the turn from looking at its context.
const mostPolls = 32

// empty hands on the completions of some queues, or of a full one many.
func (p *pump) empty(queues ...*uverbs.CQ) (total int, err error) {
	for _, cq := range queues {
		polls := 0
		for n := len(p.wcs); n == len(p.wcs) && err == nil && polls < mostPolls; total += n {
			polls++
			if n, err = cq.Poll(p.wcs[:]); n > 0 {
				p.waiting.Store(false) // it looks again when these are dealt with
			}
			if cq == p.recvCQ && slices.ContainsFunc(p.wcs[:n], isFlushed) {
				p.reap() // the send that failed first tells why
			}
			for i := range p.wcs[:n] {
				p.take(&p.wcs[i])
			}
		}
		if err != nil {
			break
		}
	}
	return total, err
}

func isFlushed(wc verbs.WC) bool { return wc.Status == verbs.StatusWRFlushErr }

// wantSends notes a reason to hear of completed sends as they complete. What has completed
// already makes no event. End it with Add(-1).
func (p *pump) wantSends() {
	if p.sends.Add(1) == 1 && p.waiting.Load() {
		_ = p.sendCQ.Arm(false) // whoever has the turn meets the same error
	}
}

// reap takes completions of sends without the turn.
func (p *pump) reap() {
	if p.sendCQ == nil {
		return
	}
	var wcs [8]verbs.WC
	total := 0
	for n := len(wcs); n == len(wcs); total += n {
		n, _ = p.sendCQ.Poll(wcs[:]) // whoever has the turn meets the same error
		for i := range wcs[:n] {
			p.take(&wcs[i])
		}
	}
	if total > 0 {
		p.nudge()
	}
}

// free closes the queues, those that there are.
func (p *pump) free() error {
	var errs []error
	for _, cq := range []*uverbs.CQ{p.sendCQ, p.recvCQ} {
		if cq != nil {
			errs = append(errs, notClosed(cq.Close()))
		}
	}
	if p.channel != nil {
		errs = append(errs, notClosed(p.channel.Close()))
	}
	return errors.Join(errs...)
}
