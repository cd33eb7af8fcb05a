package wait

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
)

// Channel delivers the records of a source, which are numbers, to the listeners with these
// numbers.
type Channel struct {
	reader  *Reader
	waiters atomic.Int32  // of all listeners, and goroutines in Get
	some    chan struct{} // holds a token after listeners were noted

	mu        sync.Mutex // guards the fields below, and noted of all listeners
	listeners map[uint64]*Listener
	noted     []*Listener // those with an event for Get, each once
}

// recordSize is the size of struct ib_uverbs_comp_event_desc, whose only field is the
// number of the listener.
const recordSize = 8

// NewChannel returns a channel that owns the source.
func NewChannel(s Source) *Channel {
	return &Channel{reader: NewReader(s, recordSize), some: make(chan struct{}, 1), listeners: make(map[uint64]*Listener)}
}

// Close closes the source. All waits end with os.ErrClosed.
func (ch *Channel) Close() error { return ch.reader.Close() }

func (ch *Channel) add(l *Listener) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.listeners[l.number] = l
}

func (ch *Channel) remove(l *Listener) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.listeners, l.number)
	if l.noted {
		ch.forget(slices.Index(ch.noted, l))
	}
}

// alone reports whether the caller is the only waiter.
func (ch *Channel) alone() bool { return ch.waiters.Load() == 1 }

// listener returns the listener of an event, and counts the event there. It returns nil for
// an event of a listener that has ended. Such events are dropped, so End need not wait for
// acknowledgements.
func (ch *Channel) listener(record []byte) *Listener {
	ch.mu.Lock()
	l := ch.listeners[binary.NativeEndian.Uint64(record)]
	ch.mu.Unlock()
	if l != nil {
		l.count()
	}
	return l
}

// deliver hands an event to its listener.
func (ch *Channel) deliver(record []byte) {
	if l := ch.listener(record); l != nil {
		l.signal()
	}
}

// Get waits for the next event of any listener without a waiter, and returns that listener.
// Several goroutines may call it. It returns ctx.Err() when ctx ends first.
func (ch *Channel) Get(ctx context.Context) (*Listener, error) {
	ch.waiters.Add(1)
	defer ch.waiters.Add(-1)
	for {
		if l := ch.next(); l != nil {
			return l, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch err := ch.reader.turn.Acquire(ctx, ch.some); {
		case err == ErrEnded:
			continue
		case err != nil:
			return nil, err
		}
		l, err := ch.readAny(ctx)
		ch.reader.turn.Release()
		if l != nil || err != nil {
			return l, err
		}
	}
}

// readAny reads records until Get has something to return. It returns the listener of a
// record if that has no waiter. It returns nil when a listener has been noted or ctx is
// done.
func (ch *Channel) readAny(ctx context.Context) (*Listener, error) {
	for !ch.hasNoted() && ctx.Err() == nil {
		record, kicked, err := ch.reader.read(ctx, ch.alone())
		if err != nil {
			return nil, err
		}
		if kicked {
			continue
		}
		if l := ch.listener(record); l != nil {
			if l.waiters.Load() == 0 {
				return l, nil
			}
			l.signal()
		}
	}
	return nil, nil
}

// note appends a listener with an event to the list that Get takes listeners from.
func (ch *Channel) note(l *Listener) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !l.noted && ch.listeners[l.number] == l {
		l.noted = true
		ch.noted = append(ch.noted, l)
		ch.wakeGetter()
	}
}

// next takes the first noted listener that has no waiter and still has its event. A
// listener with a waiter is removed from the list, and noted again if its waiters leave an
// event behind.
func (ch *Channel) next() *Listener {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for len(ch.noted) > 0 {
		l := ch.noted[0]
		ch.forget(0)
		if l.waiters.Load() > 0 || !l.takeEvent() {
			continue
		}
		if len(ch.noted) > 0 {
			ch.wakeGetter()
		}
		return l
	}
	return nil
}

func (ch *Channel) hasNoted() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return len(ch.noted) > 0
}

func (ch *Channel) forget(i int) {
	ch.noted[i].noted = false
	ch.noted = slices.Delete(ch.noted, i, i+1)
}

// wakeGetter wakes one Get that follows another reader.
func (ch *Channel) wakeGetter() {
	select {
	case ch.some <- struct{}{}:
	default:
	}
}
