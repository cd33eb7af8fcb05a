package uverbs

import "context"

// Get waits for the next event of any CQ of the channel and returns that CQ. It
// serves one loop over many CQs, and solicited events: arm the CQs, poll them
// once more, then Get, poll and arm again. Several events of a CQ count as one until
// Get returns the CQ. Completions made in user space count as events. An event may
// find its CQ empty. Several goroutines may call Get.
//
// [CQ.Wait] does all that for one CQ. Wait and Get may be used on the same channel. An
// event for a CQ with a waiter goes to that waiter; all other events go to Get.
//
// C: ibv_get_cq_event and ibv_ack_cq_events
func (ch *CompChannel) Get(ctx context.Context) (*CQ, error) {
	l, err := ch.waits.Get(ctx)
	if err != nil {
		return nil, ch.waitFailed(ctx, "wait for an event of", err)
	}
	return l.Owner.(*CQ), nil
}
