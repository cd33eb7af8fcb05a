package uverbs

import (
	"context"
	"syscall"
)

// Wait takes completions off the CQ. It waits until there is at least one, ctx is
// done, the CQ is closed, or [CQ.End] was called and no completion will come. It
// parks the goroutine. Cancellation, Close and completions made in user space may be
// noticed up to 500 µs late. A call without room in wcs is refused.
//
// C: ibv_req_notify_cq, ibv_get_cq_event, ibv_ack_cq_events and ibv_poll_cq
func (cq *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	if len(wcs) == 0 {
		return 0, cq.fail("wait for", syscall.EINVAL, "there is no room for a completion")
	}
	cq.waiters.Add(1)
	defer cq.leave()
	for ending := 0; ; {
		if n, err := cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		if err := cq.Arm(false); err != nil {
			return 0, err
		}
		if n, err := cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		cause := cq.ended.Load()
		if cause == nil {
			if err := cq.channel.wait(ctx, cq); err != nil {
				return 0, err
			}
			continue
		}
		if ending = cq.looks(ending); ending == looksAtEnd {
			return 0, cq.fail("wait for", *cause, "")
		}
		if err := cq.waitAtEnd(ctx); err != nil {
			return 0, err
		}
	}
}

// leave wakes the next of several waiters. One event wakes one waiter, which may
// leave completions behind and does not arm the CQ again. The chain ends with a
// waiter that finds nothing, arms and parks. If the last waiter leaves an event
// behind, Get receives it. Receive from the channel to find out: len may be stale.
func (cq *CQ) leave() {
	if cq.waiters.Add(-1) > 0 || cq.takeEvent() {
		cq.wake()
	}
}
