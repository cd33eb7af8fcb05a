package uverbs

import (
	"context"
	"encoding/binary"
	"slices"
)

// Get waits for the next event of any CQ of the channel and returns that CQ. Use it
// in one loop over many CQs, and for solicited events: arm the CQs, poll them
// once more, then Get, poll and arm again.
//
// Several events of one CQ that were not fetched count as one. Completions made in
// user space count as events. The CQ of an event may be empty. Several goroutines may
// call Get.
//
// [CQ.Wait] does all that for one CQ. Wait and Get may be used on the same channel.
// An event for a CQ with a waiter goes to that waiter; all other events go to Get.
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

// next takes the first CQ that still has its event and has no waiter. A CQ with a
// waiter is noted again if the waiter leaves the event behind.
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
