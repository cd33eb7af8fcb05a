package wait

import (
	"context"
	"slices"
)

// Get waits for the next event of any listener that nobody waits for, and returns that
// listener. Several goroutines may call it. It returns ctx.Err() when ctx ends first.
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
		if !ch.reader.tryTurn() {
			select {
			case <-ch.some:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-ch.reader.turn:
			}
		}
		l, err := ch.readAny(ctx)
		ch.reader.pass()
		if l != nil || err != nil {
			return l, err
		}
	}
}

// readAny reads until there is a listener to return: the one of a record, if nobody waits
// for it, or one that is noted.
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

// note appends a listener that had an event to the list from which Get takes.
func (ch *Channel) note(l *Listener) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !l.noted && ch.listeners[l.number] == l {
		l.noted = true
		ch.noted = append(ch.noted, l)
		ch.wakeGetter()
	}
}

// next takes the first noted listener that has no waiter and still has its event. One
// with a waiter leaves the list; it is noted again if the waiters leave an event behind.
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

// wakeGetter wakes one Get that waits for another goroutine to read.
func (ch *Channel) wakeGetter() {
	select {
	case ch.some <- struct{}{}:
	default:
	}
}
