package uverbs

import "github.com/goverbs/goverbs/uverbs/driver"

// ODPCaps tells what a device does with regions of AccessOnDemand.
//
// C: struct ibv_odp_caps
type ODPCaps = driver.ODPCaps

// ODPGeneral is a set of capabilities of the whole device.
//
// C: enum ibv_odp_general_caps
type ODPGeneral = driver.ODPGeneral

// Documented at [driver.ODPGeneral].
const (
	ODPSupport  ODPGeneral = driver.ODPSupport
	ODPImplicit ODPGeneral = driver.ODPImplicit
)

// ODPTransport is a set of requests that may use on-demand regions.
//
// C: enum ibv_odp_transport_cap_bits
type ODPTransport = driver.ODPTransport

// Documented at [driver.ODPTransport].
const (
	ODPSend        ODPTransport = driver.ODPSend
	ODPRecv        ODPTransport = driver.ODPRecv
	ODPWrite       ODPTransport = driver.ODPWrite
	ODPRead        ODPTransport = driver.ODPRead
	ODPAtomic      ODPTransport = driver.ODPAtomic
	ODPSRQRecv     ODPTransport = driver.ODPSRQRecv
	ODPFlush       ODPTransport = driver.ODPFlush
	ODPAtomicWrite ODPTransport = driver.ODPAtomicWrite
)
