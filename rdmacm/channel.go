package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
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
	// getting holds a token while a goroutine waits for events. Only one does at a time.
	getting chan struct{}

	mu         sync.Mutex
	ids        map[uint64]*ID
	multicasts map[uint64]*Multicast // memberships of these IDs
}

// lastUID is the number of the last ID or membership of all channels. Numbers are unique across
// channels, because Migrate moves IDs with their number. The kernel discards the events of number 0.
var lastUID atomic.Uint64

// NewEventChannel opens /dev/infiniband/rdma_cm. It needs no privilege, but the kernel refuses commands
// on the channel once the process's credentials have changed.
//
// C: rdma_create_event_channel
func NewEventChannel() (*EventChannel, error) {
	return openChannel(kernel.Running)
}

// NewEventChannelFor opens the channel of the host that has addr: a host of package rdmatest, or else the
// host that the program runs on, as [NewEventChannel] does. It is for tests with simulated devices. Its IDs
// can connect only addresses of that host's network.
func NewEventChannelFor(addr netip.Addr) (*EventChannel, error) {
	return openChannel(kernel.Owner(addr))
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

// Close closes the channel and ends a Get that waits. If IDs remain on the channel, Close does
// nothing and returns an error that matches verbs.ErrInUse. A second Close returns an error that
// matches net.ErrClosed.
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
		return &verbs.Error{Op: "close event channel", Err: verbs.ErrInUse,
			Hint: fmt.Sprintf("%d IDs remain on it; destroy or migrate them first", n)}
	}
	return closedError(c.file.Close())
}

// Get waits for the next event. If ctx ends first, it returns an error that matches ctx.Err(), and after
// Close one that matches net.ErrClosed. Call Ack for each event, because Close of the event's ID
// waits for that.
//
// As in librdmacm, Get changes the state of the queue pair that is attached to the event's ID. It
// completes the connection set-up, and moves the queue pair to the error state on disconnect or
// rejection.
//
// C: rdma_get_cm_event
func (c *EventChannel) Get(ctx context.Context) (*Event, error) {
	select {
	case c.getting <- struct{}{}:
		defer func() { <-c.getting }()
	case <-ctx.Done():
		return nil, getError(ctx, ctx.Err())
	}
	for {
		ev, err := c.next(ctx)
		if err != nil || ev.react() {
			return ev, err
		}
	}
}

// next is Get, but does not change the state of queue pairs. Only one goroutine at a time may call it.
func (c *EventChannel) next(ctx context.Context) (*Event, error) {
	for {
		if ev, err := c.read(ctx); ev != nil || err != nil {
			return ev, err
		}
	}
}

// read waits for one event. It returns nil for an event whose ID is gone.
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
	const op, object = "get event from", "event channel"
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return &verbs.Error{Op: op, Object: object, Err: ctx.Err()}
	}
	if err := closedError(err); errors.Is(err, net.ErrClosed) {
		return &verbs.Error{Op: op, Object: object, Err: net.ErrClosed}
	}
	return commandError("get event", nil, err)
}

// closedError replaces the os.ErrClosed of a file by the net.ErrClosed of network objects.
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

// lookup returns the ID that an event concerns. If the event concerns a membership, lookup returns that
// too.
func (c *EventChannel) lookup(uid uint64) (*ID, *Multicast) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.multicasts[uid]; m != nil {
		return m.id, m
	}
	return c.ids[uid], nil
}

// Format implements [fmt.Formatter]. It prints the kind only.
func (c *EventChannel) Format(f fmt.State, _ rune) { fmt.Fprint(f, "event channel") }
