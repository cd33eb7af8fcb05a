package rdmacm

import (
	"fmt"
	"math"
	"syscall"
)

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
