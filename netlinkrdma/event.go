package netlinkrdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// EventType says what happened to a device.
//
// C: enum rdma_nl_notify_event_type
type EventType uint8

// The events there are; names change silently on kernels as old as 6.12.
const (
	EventRegister     EventType = abi.RDMA_REGISTER_EVENT // a device is there
	EventUnregister   EventType = abi.RDMA_UNREGISTER_EVENT
	EventNetdevAttach EventType = abi.RDMA_NETDEV_ATTACH_EVENT // a port has a network device
	EventNetdevDetach EventType = abi.RDMA_NETDEV_DETACH_EVENT
	EventRename       EventType = abi.RDMA_RENAME_EVENT        // the event has the new name
	EventNetdevRename EventType = abi.RDMA_NETDEV_RENAME_EVENT // the event has the new name of the network device, and nothing else
)

var eventTypeNames = [...]string{"REGISTER", "UNREGISTER", "NETDEV_ATTACH", "NETDEV_DETACH", "RENAME", "NETDEV_RENAME"}

// String gives iproute2's word, or EventType(27) for a value without one.
func (t EventType) String() string { return wordFor("EventType", eventTypeNames[:], uint8(t)) }

// Event is one event.
type Event struct {
	Type EventType
	// DeviceIndex and DeviceName are those of the device. The name is empty when
	// the kernel tells neither: of a network device in another namespace.
	DeviceIndex uint32
	DeviceName  string
	Port        uint32 // 0: the event is not about a port
	NetdevIndex uint32 // 0: none
	NetdevName  string
}

// Subscriber is what a [Kernel] may be besides, as the running one is.
type Subscriber interface {
	// Subscribe joins the group of notifications.
	Subscribe() (Subscription, error)
}

// Subscription is notifications from a [Subscriber].
type Subscription interface {
	// Receive waits for a notification and returns its attributes. ENOBUFS says
	// that some are gone, and that others will follow.
	Receive(ctx context.Context) ([]byte, error)
	// Close ends it, and a Receive that waits.
	Close() error
}

// Events are the events of devices since the subscription.
type Events struct{ s Subscription }

// Subscribe has the kernel send the events of devices that belong to the network
// namespace. In shared mode every device belongs to the first one, so from another,
// as in a container, nothing is heard although the devices are seen: list them from
// time to time there. It needs no privileges. Subscribe first and list the devices then: what
// changes in between is in the events. A port's state is in no event of this
// kind; the device itself reports it.
//
// A kernel without events, as 6.1 is, gives [verbs.ErrNotSupported]. There, compare
// what [Client.Devices] and [Client.Ports] list from time to time.
//
// C: rdma monitor
func (c *Client) Subscribe() (*Events, error) {
	const what = "subscribe to the events of RDMA devices"
	// Every kernel lets a socket join the group, those too that send nothing.
	system, err := c.System()
	if err != nil {
		return nil, err
	}
	k, ok := c.kernel().(Subscriber)
	if !system.Monitor || !ok {
		return nil, fmt.Errorf("netlinkrdma: %s: %w", what, errNoEvents)
	}
	s, err := k.Subscribe()
	if err != nil {
		return nil, explain(what, Request{Op: abi.RDMA_NLDEV_CMD_MONITOR}, err)
	}
	return &Events{s}, nil
}

// Next waits for the next event, parking the goroutine and no thread, until ctx
// is done. After [ErrEventsLost], and after an error of ctx, it can be called
// again. One goroutine at a time may call it; Close ends it from another.
func (e *Events) Next(ctx context.Context) (Event, error) {
	const what = "wait for an event of an RDMA device"
	body, err := e.s.Receive(ctx)
	switch {
	case errors.Is(err, syscall.ENOBUFS):
		return Event{}, fmt.Errorf("netlinkrdma: %s: %w: %w", what, ErrEventsLost, err)
	case err != nil:
		return Event{}, fmt.Errorf("netlinkrdma: %s: %w", what, closedError(err))
	}
	event, err := parseEvent(body)
	if err != nil {
		return Event{}, fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	return event, nil
}

// Close ends the subscription. From then on Next and Close return errors that match
// net.ErrClosed.
func (e *Events) Close() error {
	const what = "close the events of RDMA devices"
	if e == nil {
		return fmt.Errorf("netlinkrdma: %s: the pointer is nil: %w", what, os.ErrInvalid)
	}
	if err := closedError(e.s.Close()); err != nil {
		return fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	return nil
}

// closedError replaces what a file returns after Close.
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
			e.Port = a.uint32()
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
