package rss

import (
	"github.com/goverbs/goverbs/internal/abi"
)

// Hash is how a device chooses among the WQs of a table.
//
// C: struct ibv_rx_hash_conf
type Hash struct {
	Function HashFunction
	Key      []byte // 40 bytes for Toeplitz
	Fields   HashFields
}

// HashFunction is a function of the fields of a packet.
//
// C: enum ibv_rx_hash_function_flags
type HashFunction uint8

// Toeplitz is the function of Microsoft's RSS.
const Toeplitz HashFunction = 1

// HashFields are the fields of a packet that count; the values combine with |.
//
// C: enum ibv_rx_hash_fields
type HashFields uint64

// The fields. Those of one IP version, and of one transport, go together.
const (
	SrcIPv4 HashFields = 1 << iota
	DstIPv4
	SrcIPv6
	DstIPv6
	SrcPortTCP
	DstPortTCP
	SrcPortUDP
	DstPortUDP
	IPSecSPI
	Inner HashFields = 1 << 31 // the fields of the inner packet, of a tunnel's
)

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

// WQAttr are attributes of a WQ that change.
//
// C: struct ibv_wq_attr
type WQAttr struct {
	State    WQState // RESET to RDY to take receives, any to RESET, RDY to ERR
	CurState WQState // the one that it must be in
	Flags    WQFlags // to set, of those in Mask
	Mask     WQFlags // to change: WQCVLANStripping at most
}

// WQAttrMask names attributes of a [WQAttr]; the values combine with |.
//
// C: enum ibv_wq_attr_mask
type WQAttrMask uint32

// One for each attribute; flags have one for both of theirs.
const (
	WQAttrState WQAttrMask = 1 << iota
	WQAttrCurState
	WQAttrFlags
)
