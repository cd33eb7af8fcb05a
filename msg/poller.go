package msg

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var hook = hooks.Get[*uverbs.QP, *uverbs.CQ]()

// poller takes completions off the queues of one connection, or of all connections of a
// pool, and hands them to the connections. It has a turn. The call that holds the turn
// polls and waits for events, for all calls that wait. While no call waits, a goroutine in
// the background holds it, so that receives are posted again and credits are granted even
// if the program makes no call.
//
// The zero value is for a connection whose completions are handled by other means, as in
// tests.
type poller struct {
	channel        *uverbs.CompChannel
	sendCQ, recvCQ *uverbs.CQ
	handle         func(*verbs.WC)
	over           <-chan struct{} // closed when no connection is left; nil for a pool
	ended          func(error)     // called once, after which the queues can't be used any more

	turn  wait.Turn
	sends atomic.Int32 // reasons to handle completed sends at once

	wakeups atomic.Uint64 // see rdmacm.ConnStats

	wcs [32]verbs.WC // owned by the holder of the turn
}

// start starts the goroutine in the background. The program has no connection yet.
func (p *poller) start() {
	p.turn.Init(func() { hook.Wake(p.recvCQ) })
	p.turn.StartBackground(p)
}

// Work implements [wait.Worker]. It handles completions. If there are none, it waits for
// some. When the queues have ended, it retires the turn.
func (p *poller) Work(ctx context.Context) (done bool, err error) {
	n, err := p.drain()
	if n == 0 && err == nil && p.isOver() {
		if n, err = p.drain(); n == 0 && err == nil { // no completion arrived before the end
			err = errOver
		}
	}
	if n == 0 && err == nil {
		err = p.sleep(ctx)
	}
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return false, nil
	}
	go p.ended(err)
	return false, wait.ErrRetire
}

func (p *poller) isOver() bool { return p.over != nil && isClosed(p.over) }

// sleep arms the queues and waits for an event, unless a completion arrives while it arms
// them.
func (p *poller) sleep(ctx context.Context) error {
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
	_, err := p.channel.Get(ctx)
	if p.wakeups.Add(1); ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return nil
}

// drain handles the available completions. It polls the send CQ only if there are no
// others, or if something waits for completed sends.
func (p *poller) drain() (int, error) {
	n, err := p.empty(p.recvCQ)
	if n > 0 && p.sends.Load() == 0 || err != nil {
		return n, err
	}
	sent, err := p.empty(p.sendCQ)
	return n + sent, err
}

// mostPolls is how often in a row a queue that stays full is polled. Without the limit,
// peers that send all the time would keep the holder of the turn from checking its
// context.
const mostPolls = 32

// empty handles the completions of some queues. If a queue stays full, it stops after
// mostPolls polls.
func (p *poller) empty(queues ...*uverbs.CQ) (total int, err error) {
	for _, cq := range queues {
		polls := 0
		for n := len(p.wcs); n == len(p.wcs) && err == nil && polls < mostPolls; total += n {
			polls++
			if n, err = cq.Poll(p.wcs[:]); n > 0 {
				p.turn.Awake() // the holder checks its wait again after these have been handled
			}
			if cq == p.recvCQ && slices.ContainsFunc(p.wcs[:n], isFlushed) {
				p.reap() // the completion of the send that failed first has the cause
			}
			for i := range p.wcs[:n] {
				p.handle(&p.wcs[i])
			}
		}
		if err != nil {
			break
		}
	}
	return total, err
}

func isFlushed(wc verbs.WC) bool { return wc.Status == verbs.StatusWRFlushErr }

// wantSends adds a reason to handle sends as soon as they complete. Sends that have
// completed already raise no event. p.sends.Add(-1) removes the reason.
func (p *poller) wantSends() {
	if p.sends.Add(1) == 1 && p.turn.IsSleeping() {
		_ = p.sendCQ.Arm(false) // the holder of the turn gets the same error
	}
}

// reap handles completed sends without the turn.
func (p *poller) reap() {
	if p.sendCQ == nil {
		return
	}
	var wcs [8]verbs.WC
	total := 0
	for n := len(wcs); n == len(wcs); total += n {
		n, _ = p.sendCQ.Poll(wcs[:]) // the holder of the turn gets the same error
		for i := range wcs[:n] {
			p.handle(&wcs[i])
		}
	}
	if total > 0 {
		p.turn.Wake()
	}
}

// free closes the queues and the channel, if they have been created.
func (p *poller) free() error {
	var errs []error
	for _, cq := range []*uverbs.CQ{p.sendCQ, p.recvCQ} {
		if cq != nil {
			errs = append(errs, ignoreClosed(cq.Close()))
		}
	}
	if p.channel != nil {
		errs = append(errs, ignoreClosed(p.channel.Close()))
	}
	return errors.Join(errs...)
}

// pollAlone starts the poller of a connection without a pool.
func (c *Conn) pollAlone() {
	p := c.poller
	p.sendCQ, p.recvCQ, p.channel = c.base().SendCQ(), c.base().RecvCQ(), c.base().RecvCQ().Channel()
	p.handle, p.over, p.ended = c.completeOwn, c.base().Done(), c.drainAfterEnd
	p.start()
}

// completeOwn handles a completion, unless it belongs to a work request of rdmacm.
func (c *Conn) completeOwn(wc *verbs.WC) {
	if wrid(wc.WRID).conn() == c.id {
		c.complete(wc)
	}
}

// drainAfterEnd handles the last completions of a connection that has ended.
func (c *Conn) drainAfterEnd(err error) {
	c.stop(err)
	var both sync.WaitGroup // a CQ ends only when the other one has been polled
	for _, cq := range []*uverbs.CQ{c.poller.recvCQ, c.poller.sendCQ} {
		both.Go(func() { pollToEnd(cq, c.completeOwn) })
	}
	both.Wait()
	c.finish()
}

// stop forbids further posts, because the completions have ended.
func (c *Conn) stop(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failBecause(c.link.explain(err))
	c.endIfIdle()
}

// pollToEnd handles the remaining completions of a CQ. Nothing more is posted to its
// queue pair.
func pollToEnd(cq *uverbs.CQ, to func(*verbs.WC)) {
	wcs := make([]verbs.WC, 32)
	for {
		n, err := cq.Wait(context.Background(), wcs)
		for i := range wcs[:n] {
			to(&wcs[i])
		}
		if err != nil {
			return // rdmacm ends the CQ, or closes it
		}
	}
}

// complete handles a completion without waiting.
func (c *Conn) complete(wc *verbs.WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := wrid(wc.WRID)
	if w.kind() != kindUnsignaled && w.kind() != kindQuietOp {
		c.outstanding--
	}
	if wc.Status == verbs.StatusSuccess {
		c.watchdog.completed(w.kind(), wc)
	} else {
		c.stats.Fail(wc.Status)
		c.failWith(wc)
	}
	switch w.kind() {
	case kindRecv:
		c.completeReceive(w.slot(), wc)
	case kindData:
		for b := c.buffers[w.slot()]; b != nil; {
			before := b.before
			c.recycle(b)
			b = before
		}
	case kindControl:
		c.controls--
		c.want(-1)
		c.room.raise()
	case kindRead:
		c.want(-1)
		if wc.Status == verbs.StatusSuccess {
			c.onRead()
		}
	case kindOp, kindQuietOp:
		c.completeOp(w, wc)
	case kindKeepAlive:
		c.watchdog.probing = false
	}
	c.flush()
	c.endIfIdle()
}

// completeReceive handles a received frame, even if the connection has failed since.
func (c *Conn) completeReceive(slot int, wc *verbs.WC) {
	if wc.Status != verbs.StatusSuccess {
		return
	}
	if err := c.onFrame(slot, wc.ByteLen); err != nil {
		c.fail(err)
	}
	c.room.raise()
	c.wake()
}

// want adds n reasons to handle completed sends as soon as they complete. c is held.
func (c *Conn) want(n int) {
	before := c.wants
	c.wants += n
	switch {
	case before <= 0 && c.wants > 0:
		c.poller.wantSends()
	case before > 0 && c.wants <= 0:
		c.poller.sends.Add(-1)
	}
}
