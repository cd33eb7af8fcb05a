package uverbs

import (
	"context"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/wait"
)

// CompChannel is where the events of CQs arrive. Any number of CQs may share
// one; waiting for them ([CQ.Wait], [CompChannel.Get]) takes no goroutine of the
// channel's own: one waiter reads for all.
//
// C: struct ibv_comp_channel
type CompChannel struct {
	object
	dev   *Device
	fd    int32
	waits *wait.Channel
}

// CreateCompChannel makes a completion channel.
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
	ch.setNumber(uint32(ch.fd))
	return ch, nil
}

func (ch *CompChannel) open() error {
	var resp abi.IbUverbsCreateCompChannelResp
	r := writeCommand(ch.dev, abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &abi.IbUverbsCreateCompChannel{})
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := r.Do(ch.dev.file); err != nil {
		return err
	}
	ch.fd = int32(resp.Fd)
	f, err := ch.dev.file.Events(ch.fd)
	if err != nil {
		return err
	}
	ch.waits = wait.NewChannel(f)
	return nil
}

// Close closes the channel. Its CQs must be closed before.
//
// C: ibv_destroy_comp_channel
func (ch *CompChannel) Close() error {
	if ch == nil {
		return closeNil("CompChannel")
	}
	return ch.close(nothing, ch.waits.Close)
}

// asObject lets a nil channel stand for none.
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
