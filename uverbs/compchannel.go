package uverbs

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// CompChannel is where the events of CQs arrive. Any number of CQs may share
// one; waiting for them ([CQ.Wait], [CompChannel.Get]) takes no goroutine of the
// channel's own: one waiter reads for all.
//
// C: struct ibv_comp_channel
type CompChannel struct {
	object
	dev     *Device
	fd      int32
	reader  *eventReader
	waiters atomic.Int32   // those in Get included
	some    chan struct{}  // holds a token when CQs were noted
	mu      sync.Mutex     // guards what follows, and the noted of CQs
	cqs     map[uint64]*CQ // by cookie
	noted   []*CQ          // that had an event, each once
}

// CreateCompChannel makes a completion channel.
//
// C: ibv_create_comp_channel
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	ch := &CompChannel{dev: d, cqs: make(map[uint64]*CQ), some: make(chan struct{}, 1)}
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
	ch.reader = newEventReader(f, compEventSize)
	return nil
}

// Close closes the channel. Its CQs must be closed before.
//
// C: ibv_destroy_comp_channel
func (ch *CompChannel) Close() error {
	return ch.close(nothing, ch.reader.close)
}

func (ch *CompChannel) add(cq *CQ) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.cqs[cq.cookie] = cq
}

func (ch *CompChannel) remove(cq *CQ) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.cqs, cq.cookie)
	if cq.noted {
		ch.forget(slices.Index(ch.noted, cq))
	}
}

// wait returns when cq had an event or was closed, or ctx is done. The waiters of
// all CQs of the channel compete for the turn to read. The one that reads hands the
// others their events.
func (ch *CompChannel) wait(ctx context.Context, cq *CQ) error {
	ch.waiters.Add(1)
	defer ch.waiters.Add(-1)
	for {
		// Nearly always the turn is free. tryTurn takes it without select's locks.
		if !ch.reader.tryTurn() {
			select {
			case <-cq.event:
				return nil
			case <-cq.gone:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-ch.reader.turn:
			}
		}
		mine, err := ch.readFor(ctx, cq)
		ch.reader.pass()
		switch {
		case err != nil:
			return cq.fail("wait for", err, "")
		case mine || cq.takeEvent() || cq.isGone():
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// readFor reads until there is something for cq to look at, and tells whether it
// was an event of cq that it read.
func (ch *CompChannel) readFor(ctx context.Context, cq *CQ) (mine bool, err error) {
	for len(cq.event) == 0 && !cq.isGone() && ctx.Err() == nil {
		record, kicked, err := ch.reader.read(ctx, ch.alone())
		if err != nil {
			return false, err
		}
		if kicked {
			continue
		}
		cookie := binary.NativeEndian.Uint64(record)
		if cookie == cq.cookie {
			cq.count()
			return true, nil
		}
		ch.deliver(cookie)
	}
	return false, nil
}

// alone tells whether the caller is the only waiter.
func (ch *CompChannel) alone() bool { return ch.waiters.Load() == 1 }

// compEventSize is the size of struct ib_uverbs_comp_event_desc, whose only
// field is the CQ's cookie.
const compEventSize = 8

// deliver notes an event. An event for a CQ that was just destroyed is dropped, so
// destroying a CQ need not wait until its events are acknowledged.
func (ch *CompChannel) deliver(cookie uint64) {
	ch.mu.Lock()
	cq := ch.cqs[cookie]
	ch.mu.Unlock()
	if cq != nil {
		cq.count()
		cq.signal()
	}
}

// count tells the provider, where it wants to know, of an event that was read, before
// anybody else hears of it.
func (cq *CQ) count() {
	if cq.counter == nil {
		return
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if !cq.closed {
		cq.counter.Event()
	}
}

// asObject lets a nil channel stand for none.
func (ch *CompChannel) asObject() *object {
	if ch == nil {
		return nil
	}
	return &ch.object
}
