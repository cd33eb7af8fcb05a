package driver

import "github.com/goverbs/goverbs/internal/abi"

// CreateWQ asks a provider for a WQ, which is a receive queue.
type CreateWQ struct {
	Call
	// MaxWR and MaxSGE are as asked for, and after Do as granted.
	MaxWR, MaxSGE uint32
	Flags         WQFlags
	// PD is what AllocPD returned.
	PD any
	// CQ is the provider's own, on which the WQ's receives complete.
	CQ CQ
	// Handle and Num are known after Do.
	Handle, Num uint32
}

// WQ is the user-space half of a WQ. Its methods, and that of [WQModifier], are called with
// the WQ held.
type WQ interface {
	PostRecv(wrs []RecvWR) (int, error)
}

// WQModifier is a WQ that takes part when it is modified, or whose modification has private
// bytes. Modify carries out r.
type WQModifier interface{ Modify(r *ModifyWQ) error }

// ModifyWQ asks a provider to modify a WQ. From and To are the same when the state stays.
type ModifyWQ struct {
	Call
	From, To WQState
}

// WQState is the state of a WQ.
//
// C: enum ibv_wq_state
type WQState uint32

// The states. A WQ can take receives in WQStateReady, and is made in WQStateReset.
const (
	WQStateReset WQState = 0
	WQStateReady WQState = 1
	WQStateErr   WQState = 2
)

// WQFlags refine a WQ; the values combine with |.
//
// C: enum ibv_create_wq_flags
type WQFlags uint32

// Which of them there are depends on the driver.
const (
	WQCVLANStripping     = WQFlags(abi.IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) // takes the VLAN tag off packets
	WQScatterFCS         = WQFlags(abi.IB_UVERBS_WQ_FLAGS_SCATTER_FCS)     // leaves their checksum behind them
	WQDelayDrop          = WQFlags(abi.IB_UVERBS_WQ_FLAGS_DELAY_DROP)      // waits a while for a receive
	WQPCIWriteEndPadding = WQFlags(abi.IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING)
)

// RXHash is how a device chooses among the WQs of a table.
//
// C: struct ibv_rx_hash_conf
type RXHash struct {
	Function RXHashFunction
	Key      []byte // 40 bytes for Toeplitz
	Fields   RXHashFields
}

// RXHashFunction is a function of the fields of a packet.
//
// C: enum ibv_rx_hash_function_flags
type RXHashFunction uint8

// RXHashToeplitz is the function of Microsoft's RSS.
const RXHashToeplitz RXHashFunction = 1

// RXHashFields are the fields of a packet that count; the values combine with |.
//
// C: enum ibv_rx_hash_fields
type RXHashFields uint64

// The fields. Those of one IP version, and of one transport, go together.
const (
	RXHashSrcIPv4 RXHashFields = 1 << iota
	RXHashDstIPv4
	RXHashSrcIPv6
	RXHashDstIPv6
	RXHashSrcPortTCP
	RXHashDstPortTCP
	RXHashSrcPortUDP
	RXHashDstPortUDP
	RXHashIPSecSPI
	RXHashInner RXHashFields = 1 << 31 // the fields of the inner packet, of a tunnel's
)

// CreateRSSQP asks a provider for a QP that deals packets out to the WQs of a table. It has
// no queues of its own.
type CreateRSSQP struct {
	Call
	Type  QPType
	Flags QPFlags
	Hash  RXHash
	// PD is what AllocPD returned.
	PD any
	// Handle and Num are known after Do.
	Handle, Num uint32
}
