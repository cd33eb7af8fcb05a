package rsocket

import "sync/atomic"

// gate lets in one call at a time, in the order in which they come. Calls stay inside
// while they wait for the peer. To testing/synctest those behind them are durably blocked,
// which they would not be in a sync.Mutex; then the time of a bubble would stand still.
type gate struct {
	calls atomic.Int32  // inside, and behind it
	next  chan struct{} // holds a token when the next call may enter
}

func (g *gate) init() { g.next = make(chan struct{}, 1) }

func (g *gate) enter() {
	if g.calls.Add(1) > 1 {
		<-g.next
	}
}

func (g *gate) leave() {
	if g.calls.Add(-1) > 0 {
		g.next <- struct{}{}
	}
}
