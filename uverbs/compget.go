package uverbs

import (
	"context"
	"encoding/binary"
	"slices"
)

// Get waits for the next event of any CQ of the channel and returns that CQ. It
// is for one loop over many CQs, and for solicited events: arm the CQs, poll them
// once more, then Get, poll and arm again. Events of one CQ that nobody has
// fetched are one; completions that are made in user space count as events; and
// an event may find its CQ empty. Several goroutines may Get.
//
// [CQ.Wait] does all that for one CQ. Use one or the other on a channel. Where
// both are used nothing is lost, but shared: events of a CQ that somebody waits
// for go to who waits, those of others to Get.
//
// C: ibv_get_cq_event and ibv_ack_cq_events
func (ch *CompChannel) Get(ctx context.Context) (*CQ, error) {
	ch.waiters.Add(1)
	defer ch.waiters.Add(-1)
	for {
		if cq := ch.next(); cq != nil {
			return cq, nil
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
		err := ch.readAny(ctx)
		ch.reader.pass()
		if err != nil {
			return nil, ch.fail("wait for an event of", err, "")
		}
	}
}

// readAny reads until there is a CQ to return.
func (ch *CompChannel) readAny(ctx context.Context) error {
	for !ch.hasNoted() && ctx.Err() == nil {
		record, kicked, err := ch.reader.read(ctx, ch.alone())
		if err != nil {
			return err
		}
		if !kicked {
			ch.deliver(binary.NativeEndian.Uint64(record))
		}
	}
	return nil
}

// note puts a CQ that had an event last among those that Get returns.
func (ch *CompChannel) note(cq *CQ) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !cq.noted && ch.cqs[cq.cookie] == cq {
		cq.noted = true
		ch.noted = append(ch.noted, cq)
		ch.wakeGetter()
	}
}

// next takes the first CQ that still has its event and nobody who waits for it.
// One that somebody waits for is noted again when the event is left behind.
func (ch *CompChannel) next() *CQ {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for len(ch.noted) > 0 {
		cq := ch.noted[0]
		ch.forget(0)
		if cq.waiters.Load() > 0 || !cq.takeEvent() {
			continue
		}
		if len(ch.noted) > 0 {
			ch.wakeGetter()
		}
		return cq
	}
	return nil
}

func (ch *CompChannel) hasNoted() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return len(ch.noted) > 0
}

func (ch *CompChannel) forget(i int) {
	ch.noted[i].noted = false
	ch.noted = slices.Delete(ch.noted, i, i+1)
}

// wakeGetter wakes one Get that does not read.
func (ch *CompChannel) wakeGetter() {
	select {
	case ch.some <- struct{}{}:
	default:
	}
}
