package rdmacm

import (
	"fmt"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// ConnParam is what two sides tell each other as they connect. In Connect and
// Accept nil stands for the zero value.
//
// C: struct rdma_conn_param
type ConnParam struct {
	// PrivateData is handed to the peer program. Limits: on InfiniBand and
	// RoCE 56 bytes to connect, 196 to accept, 148 to reject; for datagrams
	// 180 and 136; on iWARP 251.
	PrivateData []byte
	// ResponderResources is how many RDMA READs and atomics of the peer the
	// queue pair serves at a time. Zero: as many as the device can and, when
	// accepting, the peer will use. Negative: none.
	ResponderResources int
	// InitiatorDepth is how many the queue pair issues at a time; likewise.
	InitiatorDepth int
	FlowControl    bool
	// RetryCount and RNRRetryCount, 1 to 7, say how often a message that got
	// no answer, or found no receive posted, is sent again; for RNR, 7 is
	// without end. Zero: 7. Negative: not at all. What Connect says of
	// RetryCount holds for both sides; RNRRetryCount is for what the peer sends.
	// iWARP has neither.
	RetryCount    int
	RNRRetryCount int
	// QPNum and SRQ describe the queue pair of an ID that has none attached,
	// and in events the peer's.
	QPNum uint32
	SRQ   bool
	// ECE asks for, or in an answer agrees to, options of a vendor's devices. The zero
	// value is none. InfiniBand and RoCE only.
	ECE ECE
}

// ECE is enhanced connection establishment: which vendor's options, and which of them.
// What they mean is between the two devices.
//
// C: struct ibv_ece
type ECE struct {
	VendorID uint32 // 24 bits
	Options  uint32
}

// maxPrivateData is as much as the kernel's interface carries: the length is a
// byte.
const maxPrivateData = math.MaxUint8

// iwarpPrivateData is as much as siw's messages carry, whose last four of 255
// bytes are the kernel's own. The kernel takes more, and the peer's then finds the
// message invalid.
const iwarpPrivateData = maxPrivateData - 4

type privateLimit struct{ connected, datagram int }

var (
	limitConnect = privateLimit{56, 180}
	limitAccept  = privateLimit{196, 136}
	limitReject  = privateLimit{148, 136}
)

// of gives the limit for id. Where the transport can't be learnt, because the ID
// has no device yet, the kernel's own check has to do.
func (l privateLimit) of(id *ID) int {
	switch {
	case id.datagram: // iWARP has none
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
		return &OpError{Op: op, Object: id.String(), Err: errPrivateData,
			Hint: fmt.Sprintf("%d bytes given, %d allowed", len(private), limit)}
	}
	return nil
}

// wire fills the kernel's struct; resources and depth have been decided.
func (p *ConnParam) wire(w *abi.RdmaUcmConnParam, resources, depth uint8) {
	w.QpNum = p.QPNum
	w.PrivateDataLen = uint8(copy(w.PrivateData[:maxPrivateData], p.PrivateData))
	w.Srq = flag(p.SRQ)
	w.ResponderResources = resources
	w.InitiatorDepth = depth
	w.FlowControl = flag(p.FlowControl)
	w.RetryCount = retries(p.RetryCount)
	w.RnrRetryCount = retries(p.RNRRetryCount)
	w.Valid = 1
}

// ece is none of nil.
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
		QPNum:              w.QpNum,
		SRQ:                w.Srq != 0,
	}
}

// private copies what the length, as far as it can be believed, says is there.
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

// connLimits are the limits of both parties, as far as they are known: the
// device's once a queue pair is attached, the peer's in a connect request.
type connLimits struct{ device, peer *readLimits }

// settle decides what to tell the peer.
func (l connLimits) settle(p *ConnParam) (resources, issue uint8, err error) {
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
		return 0, 0, fmt.Errorf("responder resources %d, initiator depth %d: the device has at most %d, %d: %w",
			resources, issue, d.resources, d.depth, syscall.EINVAL)
	}
	return resources, issue, nil
}

// depth settles one number: what was asked for, or the most there is.
func depth(asked int, most uint8) uint8 {
	switch {
	case asked == 0:
		return most
	case asked < 0:
		return 0
	}
	return clamp(uint(asked))
}

// clamp fits n into the byte that the connection manager's messages have.
func clamp[T uint | uint32](n T) uint8 { return uint8(min(n, math.MaxUint8)) }
