package wait

import (
	"context"
	"encoding/binary"
	"sync/atomic"
)

// Listener receives the events of one number of a channel, such as those of a completion
// queue.
type Listener struct {
	// Owner identifies the listener to the caller of [Channel.Get].
	Owner any
	// Counted, unless it is nil, is called for each event that has been read, before
	// any waiter is woken.
	Counted func()

	channel *Channel // nil if nobody can wait
	number  uint64
	waiters atomic.Int32
	event   chan struct{} // holds a token after an event
	ended   chan struct{} // closed by End
	noted   bool          // in the channel's list; guarded by the channel's lock
}

// NewListener returns a listener that receives nothing before Begin. Without a channel it
// receives nothing at all.
func NewListener(ch *Channel, number uint64, owner any) *Listener {
	return &Listener{Owner: owner, channel: ch, number: number, event: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Begin starts the delivery of events.
func (l *Listener) Begin() {
	if l.channel != nil {
		l.channel.add(l)
	}
}

// End ends all waits, now and later, and drops the events to come.
func (l *Listener) End() {
	close(l.ended)
	if l.channel != nil {
		l.channel.remove(l)
		l.channel.reader.kick()
	}
}

// Join announces a waiter, so that events go to it and not to [Channel.Get]. Each Join
// needs a Leave.
func (l *Listener) Join() { l.waiters.Add(1) }

// Wait waits for an event, and returns nil when one has come or the listener has ended. It
// returns ctx.Err() when ctx ends first. The caller has called Join.
func (l *Listener) Wait(ctx context.Context) error {
	ch := l.channel
	ch.waiters.Add(1)
	defer ch.waiters.Add(-1)
	if _, err := Await(ctx, &ch.reader.turn, l, l.event, l.ended); err != ErrEnded {
		return err
	}
	return nil
}

// Work implements [Worker]. It reads one record. An event of l ends the wait.
func (l *Listener) Work(ctx context.Context) (done bool, err error) {
	record, kicked, err := l.channel.reader.read(ctx, l.channel.alone())
	switch {
	case err != nil:
		return false, err
	case kicked:
		return false, nil
	case binary.NativeEndian.Uint64(record) == l.number:
		l.count()
		return true, nil
	}
	l.channel.deliver(record)
	return false, nil
}

// Leave wakes the next waiter. One event wakes one waiter, which may leave completions
// behind and has not armed the queue again. The chain ends with a waiter that finds
// nothing, arms and waits. If the last waiter leaves an event behind, Get receives it.
// takeEvent receives from the channel to find out, because len may be stale.
func (l *Listener) Leave() {
	if l.waiters.Add(-1) > 0 || l.takeEvent() {
		l.Wake()
	}
}

// Wake makes one waiter check again, in any state. If there is no waiter, it creates
// an event for Get.
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

// signal wakes one waiter, or the next one at once if there is none.
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
