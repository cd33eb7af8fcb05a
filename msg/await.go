package msg

import "context"

// await waits for a value from ready, and takes the turn if it is free. end, if not nil,
// makes it return errEnd when it is closed. A select of several channels costs as much as
// all else here, so there is none before the goroutine has to wait for another.
func await[T any](ctx context.Context, p *pump, ready <-chan T, end <-chan struct{}) (v T, err error) {
	select {
	case v = <-ready:
		return v, nil
	default:
	}
	if p.turn.try() {
		if v, done, err := lead(ctx, p, ready, end); done {
			return v, err
		}
	}
	return queue(ctx, p, ready, end)
}

// queue is await while another goroutine has the turn.
func queue[T any](ctx context.Context, p *pump, ready <-chan T, end <-chan struct{}) (v T, err error) {
	p.wanted.Add(1)
	defer p.wanted.Add(-1)
	if p.keeping.Load() {
		p.wake()
	}
	for {
		if p.turn.try() {
			if v, done, err := lead(ctx, p, ready, end); done {
				return v, err
			}
		}
		select {
		case v = <-ready:
			return v, nil
		case <-ctx.Done():
			return v, ctx.Err()
		case <-end:
			return v, errEnd
		case <-p.turn.freed:
		}
	}
}

// lead works for all calls that wait until its own is done. If it is not, the queues have
// ended.
func lead[T any](ctx context.Context, p *pump, ready <-chan T, end <-chan struct{}) (v T, done bool, err error) {
	p.turns++
	for {
		p.waiting.Store(true) // before it looks
		if v, done, err = settled(ctx, ready, end); done {
			p.release()
			return v, true, err
		}
		if !p.step(ctx) {
			return v, false, nil
		}
	}
}

// settled tells how a wait ended, if it did.
func settled[T any](ctx context.Context, ready <-chan T, end <-chan struct{}) (v T, done bool, err error) {
	select {
	case v = <-ready:
		return v, true, nil
	default:
	}
	if end != nil && isClosed(end) {
		return v, true, errEnd
	}
	err = ctx.Err()
	return v, err != nil, err
}
