package rdmacm

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Event is one report from the kernel. It holds only copies, so it stays valid after Ack.
//
// C: struct rdma_cm_event
type Event struct {
	Type EventType
	// ID is the ID that the event concerns. For EventConnectRequest it is a new ID, which the
	// receiver owns and must accept or destroy.
	ID *ID
	// Listener is the ID that a connect request arrived at, and nil for other events.
	Listener *ID
	// Err is nil for success. Otherwise it is a syscall.Errno, a *RejectedError, or the error
	// of Get if Get failed to set up the queue pair.
	Err error
	// Param holds the peer's parameters: its limits, and its private data, which InfiniBand and
	// RoCE pad with zeros to the maximum. On InfiniBand and RoCE, ResponderResources is the
	// number of READs and atomics that the peer issues, and InitiatorDepth the number that it
	// serves. Both are named from this side's point of view.
	Param ConnParam
	// UD is the destination for the peer of a datagram ID, or for the multicast group. It is
	// nil for other IDs, and for EventUser.
	UD *UDParam
	// Arg is the argument of the WriteEvent that caused EventUser, and 0 for other events.
	Arg uint64
	// Multicast is the membership that EventMulticastJoin and EventMulticastError concern, and
	// nil for other events.
	Multicast *Multicast

	account *ID // the ID that acknowledgements count for
	acked   atomic.Bool
}

// Ack acknowledges the event. Further calls do nothing.
//
// C: rdma_ack_cm_event
func (e *Event) Ack() {
	if !e.acked.Swap(true) {
		e.account.ack(e.Multicast)
	}
}

// event converts an event of the kernel. It returns nil if its ID is gone.
func (c *EventChannel) event(resp *abi.RdmaUcmEventResp) *Event {
	typ := EventType(resp.Event)
	account, membership := c.lookup(resp.Uid)
	if account == nil {
		if typ == EventConnectRequest {
			// Its listener is gone, so no program will own the new ID.
			c.destroyKernelID(resp.Id)
		}
		return nil
	}
	ev := decodeEvent(resp, account.datagram)
	ev.ID, ev.account, ev.Multicast = account, account, membership
	if typ == EventConnectRequest {
		ev.Listener = account
		ev.ID = c.adopt(account, resp.Id, &ev.Param)
	}
	return ev
}

// react does the work that librdmacm does before its users see an event. It reports whether the user
// should see e. If not, react acknowledges e.
func (e *Event) react() bool {
	if e.Type == EventConnectRequest || e.account.react(e) {
		return true
	}
	e.Ack()
	return false
}

func decodeEvent(resp *abi.RdmaUcmEventResp, datagram bool) *Event {
	ev := &Event{Type: EventType(resp.Event)}
	if ev.Type == EventUser {
		ev.Arg, ev.Err = binary.NativeEndian.Uint64(resp.Param[:]), statusError(ev.Type, int32(resp.Status), nil)
		return ev
	}
	if datagram {
		ev.UD = new(UDParam)
		ev.Param.PrivateData = decodeUD(ev.UD, view[abi.RdmaUcmUdParam](resp.Param[:]))
	} else {
		decodeConn(&ev.Param, view[abi.RdmaUcmConnParam](resp.Param[:]))
		ev.Param.ECE = verbs.ECE{VendorID: resp.Ece.VendorId, Options: resp.Ece.AttrMod}
	}
	ev.Err = statusError(ev.Type, int32(resp.Status), ev.Param.PrivateData)
	return ev
}

// statusError returns the error for an event's status. The status is a negative errno, except for a
// rejection by the peer, where it is a reason of the InfiniBand architecture. The rejection of a
// datagram lookup arrives as UNREACHABLE, with other numbers.
func statusError(typ EventType, status int32, private []byte) error {
	switch {
	case typ == EventRejected && status < 0:
		return rejected(RejectedError{Errno: errno(status)}, private)
	case typ == EventRejected:
		return rejected(RejectedError{Reason: RejectReason(status)}, private)
	case typ == EventUnreachable && status > 0:
		return rejected(RejectedError{Reason: lookupReason(status)}, private)
	case status == 0:
		return nil
	}
	return errno(status)
}

// errno returns the errno of a status. It is safe for all values, even the most negative one, which has
// no positive counterpart.
func errno(status int32) syscall.Errno {
	if status < 0 {
		return syscall.Errno(-int64(status))
	}
	return syscall.Errno(status)
}

// EventType is the type of an event.
//
// C: enum rdma_cm_event_type
type EventType uint32

// EventAddrChange and EventTimewaitExit need no reaction. After EventDeviceRemoval, the queue pair, the
// ID and all other objects on that device must be closed. Linux 6.12 does not have the last four.
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
	EventInternal // used inside librdmacm
)

var eventNames = [...]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR",
	"CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR", "UNREACHABLE",
	"REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL",
	"MULTICAST_JOIN", "MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT",
	"ADDRINFO_RESOLVED", "ADDRINFO_ERROR", "USER", "INTERNAL",
}

// String returns the name of the event, or Event(27) for a number that this package does not know.
//
// C: rdma_event_str
func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("Event(%d)", uint32(t))
}

// UDPQKey is the Q_Key that the connection manager gives to all datagram queue pairs of the port spaces
// UDP and IPoIB.
//
// C: RDMA_UDP_QKEY
const UDPQKey uint32 = 0x01234567

// UDParam is the destination for datagrams to a peer or a group.
//
// C: struct rdma_ud_param
type UDParam struct {
	QPN  uint32
	QKey uint32
	AH   verbs.AHAttr
}

// decodeUD fills p and returns the private data.
func decodeUD(p *UDParam, w abi.RdmaUcmUdParam) []byte {
	*p = UDParam{QPN: w.QpNum, QKey: w.Qkey, AH: ahAttr(&w.AhAttr)}
	return private(w.PrivateData[:], w.PrivateDataLen)
}
