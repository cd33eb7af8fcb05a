package rdmacm

import "fmt"

// EventType says what happened to an ID.
//
// C: enum rdma_cm_event_type
type EventType uint32

// ADDR_CHANGE and TIMEWAIT_EXIT need no answer. Linux 6.12 does not have the last four yet. After DEVICE_REMOVAL the queue
// pair, the ID and all else on that device has to be closed.
const (
	EventAddrResolved EventType = iota
	EventAddrError
	EventRouteResolved
	EventRouteError
	EventConnectRequest
	EventConnectResponse
	EventConnectError
	EventUnreachable
	EventRejected
	EventEstablished
	EventDisconnected
	EventDeviceRemoval
	EventMulticastJoin
	EventMulticastError
	EventAddrChange
	EventTimewaitExit
	EventAddrInfoResolved // ResolveService
	EventAddrInfoError
	EventUser     // WriteEvent
	EventInternal // librdmacm's, to itself
)

var eventNames = [...]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR",
	"CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR", "UNREACHABLE",
	"REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL",
	"MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT",
	"ADDRINFO_RESOLVED", "ADDRINFO_ERROR", "USER", "INTERNAL",
}

// String names the event; a number that this package does not know prints as
// Event(27).
//
// C: rdma_event_str
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("Event(%d)", uint32(t))
}
