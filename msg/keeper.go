package msg

import (
	"context"
	"time"
)

// keeperLag is how long the queues may be left alone after a call that waited. The next
// call mostly comes sooner, and need not take the turn from the keeper.
const keeperLag = 20 * time.Millisecond

// release gives the turn back, and sees to it that the keeper takes it if no call does.
func (p *pump) release() {
	p.waiting.Store(false)
	p.turn.give()
	if p.ticking.CompareAndSwap(false, true) && !p.stopped.Load() {
		p.keeper.Reset(keeperLag)
	}
}

// keep is the keeper. It takes the turn when no call has had it since the last look.
func (p *pump) keep() {
	p.ticking.Store(false) // a call that releases the turn from here on has it look again
	if !p.turn.try() {
		return
	}
	if p.stopped.Load() {
		p.turn.give()
		return
	}
	if p.seen != p.turns {
		p.seen = p.turns
		p.release()
		return
	}
	p.keeping.Store(true)
	mine := true
	for mine && p.wanted.Load() == 0 && !p.stopped.Load() {
		p.waiting.Store(true)
		mine = p.step(context.Background())
	}
	p.keeping.Store(false)
	if mine {
		p.release()
	}
}
