package driver

import "github.com/goverbs/goverbs/internal/abi"

// CQFlags refine a new CQ; the values combine with |.
//
// C: enum ibv_create_cq_attr_flags
type CQFlags uint32

// CQIgnoreOverrun says that the device need not watch for completions that find no room.
const CQIgnoreOverrun CQFlags = abi.IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN

// QPFlags refine a new QP; the values combine with |.
//
// C: enum ibv_qp_create_flags
type QPFlags uint32

// Which of them there are depends on the driver and on the type of the QP.
const (
	QPBlockMulticastLoopback QPFlags = abi.IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK
	QPScatterFCS             QPFlags = abi.IB_UVERBS_QP_CREATE_SCATTER_FCS
	QPCVLANStripping         QPFlags = abi.IB_UVERBS_QP_CREATE_CVLAN_STRIPPING
	QPPCIWriteEndPadding     QPFlags = abi.IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING
)

// Ext extends a WC of a CQ that was made with extended completions. It is not part of
// WC, so that other CQs don't pay for it.
//
// C: the ibv_wc_read_… functions
type Ext struct {
	Timestamp uint64 // ticks of the device's clock (DeviceAttr.HCACoreClock)
	WallClock int64  // the same in nanoseconds since 1970, as the host's clock has them
	FlowTag   uint32
	VLAN      uint16 // tag of the packet, 0 for none
	Flags     ExtFlags
}

// ExtFlags say more of a received packet.
type ExtFlags uint16

// ExtChecksumOK says that the checksums of the packet's IP, TCP and UDP headers are right.
const ExtChecksumOK ExtFlags = 1 << 0

// ExtMask says which fields of an Ext are wanted; the values combine with |.
//
// C: enum ibv_create_cq_wc_flags, the part that struct ibv_wc lacks
type ExtMask uint32

// One bit a field.
const (
	// ExtTimestamp: when the completion was, by the device's clock.
	ExtTimestamp ExtMask = 1 << iota
	ExtFlowTag
	ExtVLAN
	ExtChecksum
	// ExtWallClock: the same as a time. The kernel compares both clocks from time to time, and
	// says by what the ticks are to be multiplied; a poll reads that once, without a system
	// call. So times of one poll are as far apart as their ticks, and a completion may seem to be
	// older than one before it if the host's clock was set back between two polls.
	ExtWallClock
)

// ExtPoller is a CQ that fills ext[i] beside wcs[i]; ext is as long as wcs. A CQ that
// is made with an Ext must be one.
type ExtPoller interface {
	PollExt(wcs []WC, ext []Ext) (n int, bad bool, err error)
}
