package rdmacm

import (
	"fmt"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// ConnParam holds the parameters that two sides exchange when they connect. For Connect and Accept, nil
// stands for the zero value.
//
// C: struct rdma_conn_param
type ConnParam struct {
	// PrivateData is passed to the peer's program. InfiniBand and RoCE allow 56 bytes to
	// connect, 196 to accept and 148 to reject; for datagrams 180 to connect, and 136 to
	// accept or reject. iWARP allows 251.
	PrivateData []byte
	// ResponderResources is how many RDMA READs and atomics of the peer the queue pair serves
	// at a time. Zero stands for as many as the device can serve and, when accepting, the
	// peer will issue. A negative number stands for none.
	ResponderResources int
	// InitiatorDepth is how many RDMA READs and atomics the queue pair issues at a time. Zero stands
	// for as many as the device can issue and, when accepting, the peer will serve. A negative
	// number stands for none.
	InitiatorDepth int
	FlowControl    bool
	// RetryCount is how often an unacknowledged message is sent again, from 1 to 7. Connect
	// sets it for both sides. RNRRetryCount is how often the peer sends a message again if
	// this side has posted no receive for it, from 1 to 7, where 7 stands for no limit. For
	// both, zero stands for 7, and a negative number for no retries. iWARP has neither. On rxe,
	// a message that waits for a receive also fails after RetryCount acknowledgement timeouts,
	// unless RetryCount is 7.
	RetryCount    int
	RNRRetryCount int
	// QPN and SRQ describe the queue pair of an ID that has none attached. In events they
	// describe the peer's queue pair.
	QPN uint32
	SRQ bool
	// ECE requests options of a vendor's devices, or agrees to them in an answer. The zero
	// value stands for none. Only InfiniBand and RoCE have it.
	ECE verbs.ECE
}

// maxPrivateData is the limit of the kernel's interface, where the length is a byte.
const maxPrivateData = math.MaxUint8

// iwarpPrivateData is the limit of siw's messages. Of their 255 bytes, the kernel uses the last four
// itself. The kernel accepts more, but the peer's kernel then rejects the message as invalid.
const iwarpPrivateData = maxPrivateData - 4

type privateLimit struct{ connected, datagram int }

var (
	limitConnect = privateLimit{56, 180}
	limitAccept  = privateLimit{196, 136}
	limitReject  = privateLimit{148, 136}
)

// of returns the limit for id. If the transport is unknown, because the ID has no device yet, only the
// kernel checks.
func (l privateLimit) of(id *ID) int {
	switch {
	case id.datagram: // iWARP has no datagrams
		return l.datagram
	case id.transport == transportIWARP:
		return iwarpPrivateData
	case id.transport == transportUnknown:
		return maxPrivateData
	}
	return l.connected
}

func checkPrivate(op string, id *ID, private []byte, limit privateLimit) error {
	if limit := limit.of(id); len(private) > limit {
		return &verbs.Error{Op: op, Object: id.String(), Err: errPrivateData,
			Hint: fmt.Sprintf("%d bytes given, %d allowed", len(private), limit)}
	}
	return nil
}

// wire fills the kernel's structure. resources and depth are the agreed numbers.
func (p *ConnParam) wire(w *abi.RdmaUcmConnParam, resources, depth uint8) {
	w.QpNum = p.QPN
	w.PrivateDataLen = uint8(copy(w.PrivateData[:maxPrivateData], p.PrivateData))
	w.Srq = flag(p.SRQ)
	w.ResponderResources = resources
	w.InitiatorDepth = depth
	w.FlowControl = flag(p.FlowControl)
	w.RetryCount = retries(p.RetryCount)
	w.RnrRetryCount = retries(p.RNRRetryCount)
	w.Valid = 1
}

// ece returns the kernel's structure of ECE. p may be nil.
func (p *ConnParam) ece() abi.RdmaUcmEce {
	if p == nil {
		return abi.RdmaUcmEce{}
	}
	return abi.RdmaUcmEce{VendorId: p.ECE.VendorID, AttrMod: p.ECE.Options}
}

func decodeConn(p *ConnParam, w abi.RdmaUcmConnParam) {
	*p = ConnParam{
		PrivateData:        private(w.PrivateData[:], w.PrivateDataLen),
		ResponderResources: int(w.ResponderResources),
		InitiatorDepth:     int(w.InitiatorDepth),
		FlowControl:        w.FlowControl != 0,
		RetryCount:         int(w.RetryCount),
		RNRRetryCount:      int(w.RnrRetryCount),
		QPN:                w.QpNum,
		SRQ:                w.Srq != 0,
	}
}

// private returns a copy of the first n bytes of b, or of all bytes if b is shorter.
func private(b []byte, n uint8) []byte {
	if n == 0 {
		return nil
	}
	return append([]byte(nil), b[:min(int(n), len(b))]...)
}

func retries(n int) uint8 {
	switch {
	case n == 0:
		return 7
	case n < 0:
		return 0
	}
	return uint8(min(n, 7))
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// readLimits bound how many RDMA READs and atomics a queue pair serves
// (resources) and issues (depth) at a time.
type readLimits struct{ resources, depth uint8 }

// connLimits holds the known limits of both sides: the device's once a queue pair is attached, and the
// peer's from a connect request.
type connLimits struct{ device, peer *readLimits }

// negotiate returns the numbers to send to the peer.
func (l connLimits) negotiate(p *ConnParam) (resources, issue uint8, err error) {
	var most readLimits
	switch {
	case l.device != nil && l.peer != nil:
		most.resources = min(l.device.resources, l.peer.resources)
		most.depth = min(l.device.depth, l.peer.depth)
	case l.device != nil:
		most = *l.device
	case l.peer != nil:
		most = *l.peer
	}
	resources = depth(p.ResponderResources, most.resources)
	issue = depth(p.InitiatorDepth, most.depth)
	if d := l.device; d != nil && (resources > d.resources || issue > d.depth) {
		return 0, 0, fmt.Errorf("responder resources %d, initiator depth %d: the device has at most %d and %d: %w",
			resources, issue, d.resources, d.depth, syscall.EINVAL)
	}
	return resources, issue, nil
}

// depth returns how many READs the queue pair of an accepted request may issue at a time.
func (id *ID) depth(p *ConnParam) int {
	id.mu.Lock()
	defer id.mu.Unlock()
	_, issue, _ := id.limits.negotiate(p) // Accept has checked it
	return int(issue)
}

// depth returns the number that was requested, or the maximum if it was 0.
func depth(asked int, most uint8) uint8 {
	switch {
	case asked == 0:
		return most
	case asked < 0:
		return 0
	}
	return clamp(uint(asked))
}

// clamp limits n to 255, because the connection manager's messages have one byte for it.
func clamp[T uint | uint32](n T) uint8 { return uint8(min(n, math.MaxUint8)) }
