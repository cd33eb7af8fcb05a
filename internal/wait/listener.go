package wait

import "sync/atomic"

// Listener receives the events of one number of a channel, a completion queue's.
type Listener struct {
	// Owner is what Get's caller knows the listener by.
	Owner any
	// Counted, unless it is nil, is called for each event that was read, before
	// anybody hears of it.
	Counted func()

	channel *Channel // nil if nobody can wait
	number  uint64
	waiters atomic.Int32
	event   chan struct{} // holds a token after an event
	ended   chan struct{} // closed by End
	noted   bool          // in the channel's list; guarded by its lock
}

// NewListener makes a listener that receives nothing before Begin. Without a channel it
// never will.
func NewListener(ch *Channel, number uint64, owner any) *Listener {
	return &Listener{Owner: owner, channel: ch, number: number, event: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Begin has events arrive.
func (l *Listener) Begin() {
	if l.channel != nil {
		l.channel.add(l)
	}
}

// End has Wait return at once, now and later, and drops events to come.
func (l *Listener) End() {
	close(l.ended)
	if l.channel != nil {
		l.channel.remove(l)
		l.channel.reader.kick()
	}
}

// Join announces a waiter, so that events are for it and not for [Channel.Get]. Each Join
// needs a Leave.
func (l *Listener) Join() { l.waiters.Add(1) }

// Leave wakes the next waiter. One event wakes one waiter, which may leave completions
// behind and has not armed the queue again. The chain ends with a waiter that finds
// nothing, arms and waits. If the last waiter leaves an event behind, Get receives it.
// takeEvent receives from the channel to find out, because len may be stale.
func (l *Listener) Leave() {
	if l.waiters.Add(-1) > 0 || l.takeEvent() {
		l.Wake()
	}
}

// Wake gives a waiter a reason to look around, wherever it waits, or makes an event for
// Get if there is none.
func (l *Listener) Wake() {
	l.signal()
	if l.channel != nil {
		l.channel.reader.kick()
	}
}

func (l *Listener) count() {
	if l.Counted != nil {
		l.Counted()
	}
}

// signal wakes one waiter, or lets the next one not wait.
func (l *Listener) signal() {
	select {
	case l.event <- struct{}{}:
	default:
	}
	// A waiter takes the event, or notes the listener when it leaves the event behind.
	if l.channel != nil && l.waiters.Load() == 0 {
		l.channel.note(l)
	}
}

func (l *Listener) takeEvent() bool {
	select {
	case <-l.event:
		return true
	default:
		return false
	}
}

func (l *Listener) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}
