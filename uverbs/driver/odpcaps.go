package driver

import "github.com/goverbs/goverbs/internal/abi"

// ODPCaps tells what a device does with regions of AccessOnDemand.
//
// C: struct ibv_odp_caps
type ODPCaps struct {
	General         ODPGeneral
	RC, UC, UD, XRC ODPTransport // which requests may use such a region, by QP type
}

// ODPGeneral is a set of capabilities of the whole device.
//
// C: enum ibv_odp_general_caps
type ODPGeneral uint64

const (
	// ODPSupport: there is on-demand paging.
	ODPSupport = ODPGeneral(abi.IB_ODP_SUPPORT)
	// ODPImplicit: one region can stand for the whole address space.
	ODPImplicit = ODPGeneral(abi.IB_ODP_SUPPORT_IMPLICIT)
)

// String names the bits.
func (c ODPGeneral) String() string {
	return bitNames(uint64(c), map[int]string{0: "Support", 1: "Implicit"})
}

// ODPTransport is a set of requests that may use on-demand regions.
//
// C: enum ibv_odp_transport_cap_bits
type ODPTransport uint32

// The last two are newer than Linux 6.12.
const (
	ODPSend        = ODPTransport(abi.IB_ODP_SUPPORT_SEND)
	ODPRecv        = ODPTransport(abi.IB_ODP_SUPPORT_RECV)
	ODPWrite       = ODPTransport(abi.IB_ODP_SUPPORT_WRITE)
	ODPRead        = ODPTransport(abi.IB_ODP_SUPPORT_READ)
	ODPAtomic      = ODPTransport(abi.IB_ODP_SUPPORT_ATOMIC)
	ODPSRQRecv     = ODPTransport(abi.IB_ODP_SUPPORT_SRQ_RECV)
	ODPFlush       = ODPTransport(1 << 6)
	ODPAtomicWrite = ODPTransport(1 << 7)
)

// String names the bits.
func (c ODPTransport) String() string {
	return bitNames(uint64(c), map[int]string{0: "Send", 1: "Recv", 2: "Write", 3: "Read", 4: "Atomic", 5: "SRQRecv",
		6: "Flush", 7: "AtomicWrite"})
}
