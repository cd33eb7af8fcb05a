package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/verbs"
)

// EventChannel carries the events of the IDs created on it.
// All methods may be called concurrently.
type EventChannel struct {
	file kernel.CM
	// getting holds one token: one goroutine at a time waits for events.
	getting chan struct{}

	mu         sync.Mutex
	ids        map[uint64]*ID
	multicasts map[uint64]*Multicast // of these IDs
}

// lastUID numbers IDs and memberships over all channels, because Migrate moves
// them with their number. The kernel discards the events of number 0.
var lastUID atomic.Uint64

// NewEventChannel opens /dev/infiniband/rdma_cm. It needs no privilege, but
// commands are refused once the process's credentials change.
//
// C: rdma_create_event_channel
func NewEventChannel() (*EventChannel, error) {
	return openChannel(kernel.Running)
}

func openChannel(k kernel.Kernel) (*EventChannel, error) {
	file, err := kernel.OpenCM(k)
	if err != nil {
		return nil, openError(err)
	}
	return newEventChannel(file), nil
}

func newEventChannel(file kernel.CM) *EventChannel {
	return &EventChannel{file: file, getting: make(chan struct{}, 1),
		ids: make(map[uint64]*ID), multicasts: make(map[uint64]*Multicast)}
}

// Close closes the channel; a waiting Get returns net.ErrClosed. While IDs
// remain on the channel it changes nothing and returns verbs.ErrInUse. A second call
// returns net.ErrClosed.
//
// C: rdma_destroy_event_channel
func (c *EventChannel) Close() error {
	if c == nil {
		return closeNil("EventChannel")
	}
	c.mu.Lock()
	n := len(c.ids)
	c.mu.Unlock()
	if n > 0 {
		return &OpError{Op: "close event channel", Err: verbs.ErrInUse,
			Hint: fmt.Sprintf("%d IDs remain on it; destroy or migrate them first", n)}
	}
	return closedError(c.file.Close())
}

// Get waits for the next event and returns ctx.Err() if ctx ends first.
// Destroy of the event's ID waits until the event is acknowledged, so
// Ack each one. Like librdmacm, Get itself takes the queue pair of an ID that
// has one attached through the rest of connection set-up, and into the error
// state on disconnect or rejection.
//
// C: rdma_get_cm_event
func (c *EventChannel) Get(ctx context.Context) (*Event, error) {
	select {
	case c.getting <- struct{}{}:
		defer func() { <-c.getting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		ev, err := c.next(ctx)
		if err != nil || ev.react() {
			return ev, err
		}
	}
}

// next is Get without what Get does for queue pairs. One goroutine at a time may
// call it.
func (c *EventChannel) next(ctx context.Context) (*Event, error) {
	for {
		if ev, err := c.read(ctx); ev != nil || err != nil {
			return ev, err
		}
	}
}

// read waits for one event, which may be nobody's: then it is nil.
func (c *EventChannel) read(ctx context.Context) (*Event, error) {
	r := newRequest[abi.RdmaUcmGetEvent, abi.RdmaUcmEventResp](abi.RDMA_USER_CM_CMD_GET_EVENT)
	defer r.free()
	r.body.Response = r.respAddr()
	if err := c.file.Await(ctx, r.in(), r.out()); err != nil {
		return nil, getError(ctx, err)
	}
	return c.event(&r.resp), nil
}

func getError(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ctx.Err()
	}
	if err := closedError(err); errors.Is(err, net.ErrClosed) {
		return err
	}
	return commandError("get event", nil, err)
}

// closedError translates: a file says os.ErrClosed where a network object,
// which a channel is to its users, says net.ErrClosed.
func closedError(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed
	}
	return err
}

func (c *EventChannel) add(id *ID, multicasts ...*Multicast) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids[id.uid] = id
	for _, m := range multicasts {
		c.multicasts[m.uid] = m
	}
}

func (c *EventChannel) remove(id *ID, multicasts ...*Multicast) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ids, id.uid)
	for _, m := range multicasts {
		delete(c.multicasts, m.uid)
	}
}

func (c *EventChannel) forget(m *Multicast) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.multicasts, m.uid)
}

// lookup finds whom an event concerns: an ID, or its membership in a group.
func (c *EventChannel) lookup(uid uint64) (*ID, *Multicast) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.multicasts[uid]; m != nil {
		return m.id, m
	}
	return c.ids[uid], nil
}
