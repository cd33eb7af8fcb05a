package netlinkrdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/debug"
)

// EventType is the kind of an event.
//
// C: enum rdma_nl_notify_event_type
type EventType uint8

// The types of events. Kernels up to 6.12 send no event when a name changes.
const (
	EventRegister     EventType = abi.RDMA_REGISTER_EVENT      // a device was added
	EventUnregister   EventType = abi.RDMA_UNREGISTER_EVENT    // a device was removed, and no process has it open
	EventNetdevAttach EventType = abi.RDMA_NETDEV_ATTACH_EVENT // a port got a network device
	EventNetdevDetach EventType = abi.RDMA_NETDEV_DETACH_EVENT
	EventRename       EventType = abi.RDMA_RENAME_EVENT        // the event has the new name
	EventNetdevRename EventType = abi.RDMA_NETDEV_RENAME_EVENT // the event has the new name of the network device, and nothing else
)

var eventTypeNames = [...]string{"REGISTER", "UNREGISTER", "NETDEV_ATTACH", "NETDEV_DETACH", "RENAME", "NETDEV_RENAME"}

// String returns iproute2's word, or EventType(27) for a value without one.
func (t EventType) String() string { return wordFor("EventType", eventTypeNames[:], uint8(t)) }

// Event is one event of a device.
type Event struct {
	Type EventType
	// DeviceIndex and DeviceName are those of the device. For a network device in
	// another namespace the kernel sends neither, and the name is empty.
	DeviceIndex uint32
	DeviceName  string
	Port        int    // 0: the event is not about a port
	NetdevIndex uint32 // 0: none
	NetdevName  string
}

// Subscriber is an optional interface of a [Kernel]. The running kernel implements it.
type Subscriber interface {
	// Subscribe joins the group of notifications.
	Subscribe() (Subscription, error)
}

// Subscription receives the notifications of a [Subscriber].
type Subscription interface {
	// Receive waits for a notification and returns its attributes. ENOBUFS means that
	// notifications were dropped. Later ones can still be received.
	Receive(ctx context.Context) ([]byte, error)
	// Close ends the subscription and a Receive that is waiting.
	Close() error
}

// Events receives the events of devices.
type Events struct{ s Subscription }

// Subscribe starts to receive the events of the devices that belong to the network
// namespace. It needs no privileges. Subscribe before you list the devices, so that the
// events have all later changes.
//
// In shared mode every device belongs to the initial namespace. Another namespace, such as
// a container's, sees the devices but receives no events. Programs there should list the
// devices from time to time. No event reports the state of a port; the asynchronous events
// of package uverbs do.
//
// Linux 6.1 has no events, and Subscribe returns [verbs.ErrNotSupported]. There, call
// [Client.Devices] and [Client.Ports] from time to time and compare.
//
// C: rdma monitor
func (c *Client) Subscribe() (*Events, error) {
	op := operation{"subscribe to", "the events of RDMA devices"}
	// Kernels that send no events let a socket join the group as well.
	system, err := c.System()
	if err != nil {
		return nil, err
	}
	k, ok := c.kernel().(Subscriber)
	if !system.Monitor || !ok {
		return nil, hint(op.failed(errNoEvents), errNoEvents, "list the devices and ports periodically instead")
	}
	began := time.Now()
	s, err := k.Subscribe()
	if debug.Netlink {
		debug.Print("netlink", began, "subscribe to MONITOR", err)
	}
	if err != nil {
		return nil, explain(op, Request{Op: abi.RDMA_NLDEV_CMD_MONITOR}, err)
	}
	return &Events{s}, nil
}

// Next waits for the next event until ctx is done. It parks the goroutine and blocks no
// thread. Next may be called again after [ErrEventsLost] and after an error caused by ctx,
// which matches ctx.Err(); if a deadline passed, its Timeout method returns true. Only one
// goroutine at a time may call Next. Another may call Close, which ends Next.
func (e *Events) Next(ctx context.Context) (Event, error) {
	op := operation{"wait for", "an event of an RDMA device"}
	if e == nil {
		return Event{}, op.nilPointer()
	}
	body, err := e.s.Receive(ctx)
	switch {
	case errors.Is(err, syscall.ENOBUFS):
		return Event{}, hint(op.failed(fmt.Errorf("%w: %w", ErrEventsLost, err)), ErrEventsLost, "list the devices and ports again")
	case err != nil:
		return Event{}, op.failed(closedError(err))
	}
	event, err := parseEvent(body)
	if err != nil {
		return Event{}, op.failed(err)
	}
	return event, nil
}

// Close ends the subscription. Later calls of Next and Close return errors that match
// [net.ErrClosed].
func (e *Events) Close() error {
	op := operation{"close", "the events of RDMA devices"}
	if e == nil {
		return op.nilPointer()
	}
	if err := closedError(e.s.Close()); err != nil {
		return op.failed(err)
	}
	return nil
}

// Format prints a line for every verb.
func (e *Events) Format(f fmt.State, _ rune) { fmt.Fprint(f, "events of RDMA devices") }

// closedError replaces a file's error after Close by net.ErrClosed.
func closedError(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed
	}
	return err
}

func parseEvent(body []byte) (Event, error) {
	var e Event
	typ := false
	a := attributes{rest: body}
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_EVENT_TYPE:
			e.Type, typ = EventType(a.uint8()), true
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			e.DeviceIndex = a.uint32()
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			e.DeviceName = a.string()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			e.Port = int(a.uint32())
		case abi.RDMA_NLDEV_ATTR_NDEV_INDEX:
			e.NetdevIndex = a.uint32()
		case abi.RDMA_NLDEV_ATTR_NDEV_NAME:
			e.NetdevName = a.string()
		}
	}
	a.require(typ, abi.RDMA_NLDEV_ATTR_EVENT_TYPE)
	if a.err != nil {
		return Event{}, a.err
	}
	return e, nil
}
