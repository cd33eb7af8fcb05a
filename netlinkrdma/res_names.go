package netlinkrdma

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// PollContext is where the kernel polls a completion queue of its own.
//
// C: enum ib_poll_context
type PollContext uint8

// The contexts there are.
const (
	PollSoftIRQ          PollContext = 0
	PollWorkqueue        PollContext = 1
	PollUnboundWorkqueue PollContext = 2
	PollDirect           PollContext = 3 // in the caller's, when it asks
)

var pollContextNames = [...]string{"SOFTIRQ", "WORKQUEUE", "UNBOUND_WORKQUEUE", "DIRECT"}

// String gives the kernel's word, or PollContext(27) for a value without one.
// iproute2 has the words in another order, that of kernels older than 6.1.
func (p PollContext) String() string {
	return wordFor("PollContext", pollContextNames[:], uint8(p))
}

// SRQType is the kind of a shared receive queue.
//
// C: enum ib_srq_type
type SRQType uint8

// The types the kernel knows.
const (
	SRQTypeBasic SRQType = abi.IB_UVERBS_SRQT_BASIC
	SRQTypeXRC   SRQType = abi.IB_UVERBS_SRQT_XRC
	SRQTypeTM    SRQType = abi.IB_UVERBS_SRQT_TM // tag matching
)

var srqTypeNames = [...]string{"BASIC", "XRC", "TM"}

// String gives iproute2's word, or SRQType(27) for a value without one.
func (t SRQType) String() string { return wordFor("SRQType", srqTypeNames[:], uint8(t)) }

// CMState is where an id of the connection manager stands.
//
// C: enum rdma_cm_state
type CMState uint8

// The states the kernel knows; Linux 6.12 does not have the last two, 7.2 has.
const (
	CMStateIdle             CMState = 0
	CMStateAddrQuery        CMState = 1
	CMStateAddrResolved     CMState = 2
	CMStateRouteQuery       CMState = 3
	CMStateRouteResolved    CMState = 4
	CMStateConnect          CMState = 5 // connecting, or connected
	CMStateDisconnect       CMState = 6
	CMStateAddrBound        CMState = 7
	CMStateListen           CMState = 8
	CMStateDeviceRemoval    CMState = 9
	CMStateDestroying       CMState = 10
	CMStateAddrInfoQuery    CMState = 11
	CMStateAddrInfoResolved CMState = 12
)

var cmStateNames = [...]string{
	"IDLE", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT",
	"DISCONNECT", "ADDR_BOUND", "LISTEN", "DEVICE_REMOVAL", "DESTROYING", "ADDRINFO_QUERY", "ADDRINFO_RESOLVED",
}

// String gives iproute2's word, or CMState(27) for a value without one.
func (s CMState) String() string { return wordFor("CMState", cmStateNames[:], uint8(s)) }

func wordFor(kind string, words []string, v uint8) string {
	if int(v) < len(words) && words[v] != "" {
		return words[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}
