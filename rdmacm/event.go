package rdmacm

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Event is one report from the kernel. It holds copies only and stays valid
// after Ack.
//
// C: struct rdma_cm_event
type Event struct {
	Type EventType
	// ID is what the event is about; for EventConnectRequest the new ID,
	// which the receiver now owns and must accept or destroy.
	ID *ID
	// Listener is where a connect request came in, else nil.
	Listener *ID
	// Err is nil for success, else a syscall.Errno, a *RejectedError, or, when
	// Get itself failed to set up the queue pair, that error.
	Err error
	// Param holds the peer's side of the connection: its private data, which
	// InfiniBand and RoCE pad with zeros to the maximum, and its limits.
	Param ConnParam
	// UD is how to reach the peer of a datagram ID, or the multicast group. It is nil
	// for other IDs, and for EventUser, which says nothing of a peer.
	UD *UDParam
	// Arg is what the writer of EventUser gave, else 0.
	Arg uint64
	// Multicast is the membership that EventMulticastJoin and
	// EventMulticastError are about, else nil.
	Multicast *Multicast

	account *ID // whose acknowledgements the kernel's count waits for
	acked   atomic.Bool
}

// Ack tells that the event has been dealt with. Further calls do nothing.
//
// C: rdma_ack_cm_event
func (e *Event) Ack() {
	if !e.acked.Swap(true) {
		e.account.ack(e.Multicast)
	}
}

// event makes an Event of what the kernel wrote. It returns nil for what is
// nobody's.
func (c *EventChannel) event(resp *abi.RdmaUcmEventResp) *Event {
	typ := EventType(resp.Event)
	account, membership := c.lookup(resp.Uid)
	if account == nil {
		if typ == EventConnectRequest {
			// Its listener is gone and nobody else can own the new ID.
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

// react does what librdmacm does before its users see an event. It reports whether
// the user is to see this one, and else acknowledges it.
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
		ev.Param.ECE = ECE{resp.Ece.VendorId, resp.Ece.AttrMod}
	}
	ev.Err = statusError(ev.Type, int32(resp.Status), ev.Param.PrivateData)
	return ev
}

// statusError reads the status, which is a negative errno, but a reason of the
// InfiniBand architecture where a peer rejected. A lookup of a
// datagram service gets it as UNREACHABLE, with another numbering.
func statusError(typ EventType, status int32, private []byte) error {
	switch {
	case typ == EventRejected && status < 0:
		return &RejectedError{Errno: errno(status), PrivateData: private}
	case typ == EventRejected:
		return &RejectedError{Reason: RejectReason(status), PrivateData: private}
	case typ == EventUnreachable && status > 0:
		return &RejectedError{Reason: lookupReason(status), PrivateData: private}
	case status == 0:
		return nil
	}
	return errno(status)
}

// errno is made for hostile input: the most negative status has no opposite.
func errno(status int32) syscall.Errno {
	if status < 0 {
		return syscall.Errno(-int64(status))
	}
	return syscall.Errno(status)
}

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

// UDPQKey is the Q_Key that the connection manager gives to every datagram queue
// pair of the port spaces UDP and IPoIB.
//
// C: RDMA_UDP_QKEY
const UDPQKey uint32 = 0x01234567

// UDParam is how to reach the peer of a datagram ID.
//
// C: struct rdma_ud_param
type UDParam struct {
	QPNum uint32
	QKey  uint32
	AH    verbs.AHAttr
}

// decodeUD returns the private data, which an Event keeps in one place.
func decodeUD(p *UDParam, w abi.RdmaUcmUdParam) []byte {
	*p = UDParam{QPNum: w.QpNum, QKey: w.Qkey, AH: ahAttr(&w.AhAttr)}
	return private(w.PrivateData[:], w.PrivateDataLen)
}
