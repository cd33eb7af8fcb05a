package rss

import "github.com/goverbs/goverbs/internal/abi"

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
