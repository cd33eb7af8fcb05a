package uverbs

import (
	"context"
	"errors"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/verbs"
)

// CompChannel is a completion channel. It receives the events of any number of CQs. The
// channel has no goroutine of its own: one of the goroutines in [CQ.Wait] and
// [CompChannel.Get] reads the events for all of them.
//
// C: struct ibv_comp_channel
type CompChannel struct {
	object
	dev   *Device
	fd    int32 // unless polled is set
	waits *wait.Channel

	polled bool // the kernel has no completion channels
	mu     sync.Mutex
	armed  map[*CQ]struct{} // if polled is set; guarded by mu
}

// CreateCompChannel creates a completion channel. If the kernel refuses to, as gVisor does, the channel polls its armed
// CQs while a goroutine waits, with pauses of up to a millisecond.
//
// C: ibv_create_comp_channel
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	ch := &CompChannel{dev: d}
	if err := ch.attach("completion channel", &d.object); err != nil {
		return nil, err
	}
	if err := ch.open(); err != nil {
		ch.detach()
		return nil, ch.fail("create", err, createHint(err))
	}
	ch.created(ch, uint32(ch.fd))
	return ch, nil
}

func (ch *CompChannel) open() error {
	var resp abi.IbUverbsCreateCompChannelResp
	r := writeCommand(ch.dev, abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &abi.IbUverbsCreateCompChannel{})
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(ch.dev.file); err != nil {
		if !ioctl.Unsupported(err) && !errors.Is(err, syscall.EINVAL) { // the command has nothing that could be invalid
			return err
		}
		ch.polled, ch.armed = true, make(map[*CQ]struct{})
		ch.waits = wait.NewChannel(wait.Poll(ch.due))
		return nil
	}
	ch.fd = int32(resp.Fd)
	f, err := ch.dev.file.Events(ch.fd)
	if err != nil {
		return err
	}
	ch.waits = wait.NewChannel(f)
	return nil
}

// Close closes the channel. Its CQs must be closed first.
//
// C: ibv_destroy_comp_channel
func (ch *CompChannel) Close() error {
	if ch == nil {
		return closeNil("CompChannel")
	}
	return ch.close(noop, ch.waits.Close)
}

// arm implements [CQ.Arm] if the channel polls.
func (ch *CompChannel) arm(cq *CQ) {
	cq.mu.Lock()
	cq.taken = false
	cq.mu.Unlock()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.armed[cq] = struct{}{}
}

// disarm forgets a CQ that is closed.
func (ch *CompChannel) disarm(cq *CQ) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.armed, cq)
}

// due returns the cookie of an armed CQ that may have had a completion since.
func (ch *CompChannel) due() (cookie uint64, ok bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for cq := range ch.armed {
		if cq.mayHaveHad() {
			delete(ch.armed, cq)
			return cq.cookie, true
		}
	}
	return 0, false
}

// mayHaveHad reports whether the CQ may have a completion, or had one since Arm. The goroutine that waits for the event
// must learn of completions that another one has polled.
func (cq *CQ) mayHaveHad() bool {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.taken || len(cq.old)+len(cq.made) > 0 || !cq.peek.Empty()
}

// hasEvents reports whether the kernel reports completions.
func (ch *CompChannel) hasEvents() bool { return ch != nil && !ch.polled }

// asObject returns nil for a nil channel.
func (ch *CompChannel) asObject() *object {
	if ch == nil {
		return nil
	}
	return &ch.object
}

func (ch *CompChannel) events() *wait.Channel {
	if ch == nil {
		return nil
	}
	return ch.waits
}

// Get waits for the next event of any CQ of the channel and returns that CQ. Use it for a
// loop over many CQs, and for solicited events: arm the CQs and poll them once more; then
// repeat Get, poll and arm. Several events of a CQ count as one until Get returns the CQ.
// Completions made in user space raise an event, too. The CQ that Get returns may be empty.
// Several goroutines may call Get.
//
// For a single CQ, [CQ.Wait] is simpler. Wait and Get may be used on the same channel. An
// event for a CQ with a waiter goes to that waiter; all other events go to Get.
//
// C: ibv_get_cq_event and ibv_ack_cq_events
func (ch *CompChannel) Get(ctx context.Context) (*CQ, error) {
	const op = "wait for an event of"
	if ch.isZero() {
		return nil, ch.fail(op, verbs.ErrClosed, "")
	}
	l, err := ch.waits.Get(ctx)
	if err != nil {
		return nil, ch.waitFailed(ctx, op, err)
	}
	return l.Owner.(*CQ), nil
}
