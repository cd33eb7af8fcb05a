package wait

import (
	"context"
	"encoding/binary"
)

// Wait returns nil when an event came, or the listener has ended. It returns ctx.Err()
// when ctx ends first. The caller has joined.
func (l *Listener) Wait(ctx context.Context) error {
	ch := l.channel
	ch.waiters.Add(1)
	defer ch.waiters.Add(-1)
	for {
		// Nearly always the turn is free. tryTurn takes it without select's locks.
		if !ch.reader.tryTurn() {
			select {
			case <-l.event:
				return nil
			case <-l.ended:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-ch.reader.turn:
			}
		}
		mine, err := l.read(ctx)
		ch.reader.pass()
		switch {
		case err != nil:
			return err
		case mine || l.takeEvent() || l.hasEnded():
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// read reads until the listener has a reason to look around, and reports whether it read
// an event of its own. The caller has the turn.
func (l *Listener) read(ctx context.Context) (mine bool, err error) {
	for len(l.event) == 0 && !l.hasEnded() && ctx.Err() == nil {
		record, kicked, err := l.channel.reader.read(ctx, l.channel.alone())
		switch {
		case err != nil:
			return false, err
		case kicked:
		case binary.NativeEndian.Uint64(record) == l.number:
			l.count()
			return true, nil
		default:
			l.channel.deliver(record)
		}
	}
	return false, nil
}
