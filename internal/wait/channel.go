package wait

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
)

// Channel is a source whose records are the numbers of listeners. Any number of them
// share it.
type Channel struct {
	reader  *Reader
	waiters atomic.Int32  // of all listeners, and those in Get
	some    chan struct{} // holds a token when listeners were noted

	mu        sync.Mutex // guards what follows, and the noted of listeners
	listeners map[uint64]*Listener
	noted     []*Listener // that had an event, each once
}

// recordSize is the size of struct ib_uverbs_comp_event_desc, whose only field is the
// number of the listener.
const recordSize = 8

// NewChannel takes over a source.
func NewChannel(s Source) *Channel {
	return &Channel{reader: NewReader(s, recordSize), some: make(chan struct{}, 1), listeners: make(map[uint64]*Listener)}
}

// Close closes the source. Whoever waits returns os.ErrClosed.
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

// listener counts an event for its listener, which it returns. An event for a listener that
// has ended is dropped, so that nobody need acknowledge events.
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
