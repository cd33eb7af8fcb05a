package rss

import "github.com/goverbs/goverbs/internal/abi"

// Hash selects the WQ of a table for each packet.
//
// C: struct ibv_rx_hash_conf
type Hash struct {
	Function HashFunction
	Key      []byte // 40 bytes for Toeplitz
	Fields   HashFields
}

// HashFunction is a hash function for the fields of a packet.
//
// C: enum ibv_rx_hash_function_flags
type HashFunction uint8

// Toeplitz is the hash function of Microsoft's RSS.
const Toeplitz HashFunction = 1

// HashFields selects the fields of a packet that are hashed; the values combine with |.
//
// C: enum ibv_rx_hash_fields
type HashFields uint64

// The fields. A hash can use fields of only one IP version and of only one transport.
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
	Inner HashFields = 1 << 31 // the fields of the packet inside a tunnel
)

// WQState is the state of a WQ.
//
// C: enum ibv_wq_state
type WQState uint32

// The states. A new WQ is in WQStateReset. It accepts receives in WQStateReady.
const (
	WQStateReset WQState = 0
	WQStateReady WQState = 1
	WQStateErr   WQState = 2
)

// WQFlags are options of a WQ; the values combine with |.
//
// C: enum ibv_create_wq_flags
type WQFlags uint32

// The driver determines which flags are supported.
const (
	WQCVLANStripping     = WQFlags(abi.IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) // strips the VLAN tag of packets
	WQScatterFCS         = WQFlags(abi.IB_UVERBS_WQ_FLAGS_SCATTER_FCS)     // leaves the frame checksum after the packet
	WQDelayDrop          = WQFlags(abi.IB_UVERBS_WQ_FLAGS_DELAY_DROP)      // waits for a receive before dropping a packet
	WQPCIWriteEndPadding = WQFlags(abi.IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING)
)

// WQAttr has the attributes of a WQ that can be modified.
//
// C: struct ibv_wq_attr
type WQAttr struct {
	State    WQState // RESET to RDY to take receives, any to RESET, RDY to ERR
	CurState WQState // the state that it must be in
	Flags    WQFlags // new values of the flags in Mask
	Mask     WQFlags // flags to change: WQCVLANStripping at most
}

// WQAttrMask selects attributes of a [WQAttr]; the values combine with |.
//
// C: enum ibv_wq_attr_mask
type WQAttrMask uint32

// One bit for each attribute. WQAttrFlags selects both Flags and Mask.
const (
	WQAttrState WQAttrMask = 1 << iota
	WQAttrCurState
	WQAttrFlags
)
