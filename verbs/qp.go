package verbs

import (
	"time"

	"github.com/goverbs/goverbs/internal/abi"
)

// QPType is the transport service of a queue pair.
//
// C: enum ib_qp_type
type QPType uint8

// The types that the kernel defines.
const (
	QPTypeSMI          QPType = 0 // subnet management, QP 0
	QPTypeGSI          QPType = 1 // general services, QP 1
	QPTypeRC           QPType = abi.IB_UVERBS_QPT_RC
	QPTypeUC           QPType = abi.IB_UVERBS_QPT_UC
	QPTypeUD           QPType = abi.IB_UVERBS_QPT_UD
	QPTypeRawPacket    QPType = abi.IB_UVERBS_QPT_RAW_PACKET
	QPTypeXRCInitiator QPType = abi.IB_UVERBS_QPT_XRC_INI
	QPTypeXRCTarget    QPType = abi.IB_UVERBS_QPT_XRC_TGT
	QPTypeDriver       QPType = abi.IB_UVERBS_QPT_DRIVER // a type of the driver's own
)

// QPTypeSRD is EFA's scalable reliable datagram. A QP sends to any other SRD QP: each work request
// names its peer by AH, RemoteQPN and RemoteQKey, as on UD QPs. Each message arrives once, or its
// completion has an error.
//
// Nothing is in order. Messages overtake each other, also between the same two QPs, and so do their completions at both
// ends. A completion means that its own work request is done, and implies nothing about others. A read that follows a
// write to the same memory may return the old data, so wait for the write's completion first. The bytes of one message
// arrive in any order: see DataOrder.
//
// A failed work request does not end the QP, which stays in RTS. A QP that accesses the memory of
// another by read or write needs, at the target, an AH of its own address in the target's PD;
// without one the work request fails with StatusRemOpErr.
//
// The kernel knows the type as QPTypeDriver, and reports it as such.
//
// C: IBV_QPT_DRIVER with EFADV_QP_DRIVER_TYPE_SRD
const QPTypeSRD QPType = 0xfe

// The dynamically connected transport (DC) of mlx5 has initiators (DCI) and targets (DCT). It is
// reliable and has the operations of RC, but each request of a DCI names its target, so one DCI
// serves any number of targets, one after another. No target needs to know its initiators.
//
// A DCI only sends. Each of its requests has the target's AH, its number in RemoteQPN, and its
// DCKey. A failed request moves the DCI to ERR, and leaves the target as it is. Move the DCI to
// RESET to use it again.
//
// A DCT only answers. It takes the receives of an SRQ, which it needs even if its peers only read
// and write. It has no number before RTR, which is its last state: it can't be reset. Its DCKey,
// uverbs.QPOptions.DCKey, protects little: a peer that may use the DCT must know the key.
//
// The kernel knows both types as QPTypeDriver, and reports them as such.
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: IBV_QPT_DRIVER with MLX5DV_DCTYPE_DCI and MLX5DV_DCTYPE_DCT
const (
	QPTypeDCI QPType = 0xfd
	QPTypeDCT QPType = 0xfc
)

var qpTypeNames = [...]string{
	"SMI", "GSI", "RC", "UC", "UD", "RAW_IPV6", "RAW_ETHERTYPE", "", "RAW_PACKET", "XRC_INI", "XRC_TGT",
}

// String returns iproute2's name, SRD, DCI or DCT for the types that iproute2 has no name for, or
// QPType(27) for a value without a name.
func (t QPType) String() string {
	switch t {
	case QPTypeDCI:
		return "DCI"
	case QPTypeDCT:
		return "DCT"
	case QPTypeDriver:
		return "DRIVER"
	case QPTypeSRD:
		return "SRD"
	}
	return wordFor("QPType", qpTypeNames[:], uint8(t))
}

// QPState is the state of a queue pair.
//
// C: enum ib_qp_state
type QPState uint8

// The states of the verbs specification.
const (
	QPStateReset QPState = 0
	QPStateInit  QPState = 1
	QPStateRTR   QPState = 2 // ready to receive
	QPStateRTS   QPState = 3 // ready to send
	QPStateSQD   QPState = 4 // send queue drained
	QPStateSQE   QPState = 5 // send queue error
	QPStateErr   QPState = 6
)

var qpStateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// String returns iproute2's name, or QPState(27) for a value without one.
func (s QPState) String() string { return wordFor("QPState", qpStateNames[:], uint8(s)) }

// QPCap is the capacity of a QP.
//
// C: struct ibv_qp_cap
type QPCap struct {
	MaxSendWR, MaxRecvWR   uint32 // work requests that can be outstanding
	MaxSendSGE, MaxRecvSGE uint32 // SGEs in one work request
	MaxInline              uint32 // bytes of inline data in one work request
}

// QPFlags are options of a new QP; the values combine with |.
//
// C: enum ibv_qp_create_flags
type QPFlags uint32

// The driver and the type of the QP determine which flags are supported.
const (
	QPBlockMulticastLoopback QPFlags = abi.IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK
	QPScatterFCS             QPFlags = abi.IB_UVERBS_QP_CREATE_SCATTER_FCS
	// QPCVLANStripping removes the VLAN tag of received raw packets. With WCExtVLAN, completions
	// contain the tag.
	QPCVLANStripping     QPFlags = abi.IB_UVERBS_QP_CREATE_CVLAN_STRIPPING
	QPPCIWriteEndPadding QPFlags = abi.IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING
	// QPUnsolicitedWriteRecv makes writes with immediate data complete at this QP without a receive.
	// Their completions have WRID 0. Only EFA has it. The kernel's core has no such flag.
	// C: EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV
	QPUnsolicitedWriteRecv QPFlags = 1 << 31
)

// QPAttr has the attributes of a QP. A QPAttrMask says which fields are valid. Times are rounded up
// to the next one that QPs have.
//
// C: struct ibv_qp_attr
type QPAttr struct {
	State, CurState QPState
	PathMTU         MTU
	QKey            uint32 // UD and SRD; a value with the top bit set needs CAP_NET_RAW
	RQPSN, SQPSN    uint32 // 24 bits: sequence numbers of the first packet received and sent
	DestQPN         uint32 // 24 bits
	Access          Access // rights of the peer; RC, UC and DCT
	AH              AHAttr // the peer's address; its Port must be Port
	PKeyIndex       uint32 // the kernel takes 65535 at most
	MaxRDAtomic     uint8  // reads and atomics in flight, as initiator
	MaxDestRDAtomic uint8  // and as responder
	Port            int    // from 1; the kernel takes 255 at most
	RetryCnt        uint8  // number of retries after a timeout, 0 to 7; on rxe, 7 means without limit
	RNRRetry        uint8  // number of retries after receiver-not-ready, 0 to 6; 7 means without limit, on rxe only if RetryCnt is 7, too

	// AckTimeout is how long the QP waits for an acknowledgement before it sends a packet
	// again: 4.096 µs times a power of two, from 8.192 µs to 2 hours, 26 minutes and 36
	// seconds. Zero means that it waits forever. RNRTimer is how long the peer waits before it sends
	// a message again that found no receive: 0.01 to 655.36 ms, in 32 steps.
	AckTimeout, RNRTimer time.Duration

	// EnSQDAsyncNotify requests EventSQDrained when the move to SQD is complete. SQDraining is
	// true until then (Query only).
	EnSQDAsyncNotify, SQDraining bool

	// The alternate path (QPAttrAltPath) and its state.
	AltAH         AHAttr // its Port must be AltPort
	AltPKeyIndex  uint32 // limits as above
	AltPort       int
	AltAckTimeout time.Duration
	PathMigState  PathMigState

	// RateLimit is in kbit/s; 0 means none. It is for raw packet QPs and Modify only, and
	// experimental: see docs/stability.md. DeviceAttr.PacketPacing has the limits.
	RateLimit uint32
	// MaxBurst is the number of bytes that may leave at once within the RateLimit, and
	// TypicalPacket the usual size of a packet in bytes. 0 leaves them to the device. Modify
	// uses them with QPAttrRateLimit. Devices without PacketPacingCaps.Burst refuse them with
	// an error that matches ErrNotSupported. C: struct ibv_qp_rate_limit_attr
	MaxBurst      uint32
	TypicalPacket uint16

	Cap QPCap // Query only: the kernel's values; see uverbs.QP.Cap
}

// ECE describes enhanced connection establishment: options of a vendor that only the
// drivers of both ends interpret. A program passes the result of uverbs.QP.ECE to the
// peer, for example in rdmacm.ConnParam, and passes the peer's answer to
// uverbs.QP.SetECE.
//
// C: struct ibv_ece
type ECE struct {
	VendorID uint32 // 24 bits
	Options  uint32
}

// QPAttrMask is the set of valid fields of a QPAttr.
//
// C: enum ibv_qp_attr_mask
type QPAttrMask uint32

// One bit for each attribute.
const (
	QPAttrState           QPAttrMask = 1 << 0
	QPAttrCurState        QPAttrMask = 1 << 1
	QPAttrEnSQDAsync      QPAttrMask = 1 << 2
	QPAttrAccess          QPAttrMask = 1 << 3
	QPAttrPKeyIndex       QPAttrMask = 1 << 4
	QPAttrPort            QPAttrMask = 1 << 5
	QPAttrQKey            QPAttrMask = 1 << 6
	QPAttrAV              QPAttrMask = 1 << 7
	QPAttrPathMTU         QPAttrMask = 1 << 8
	QPAttrAckTimeout      QPAttrMask = 1 << 9
	QPAttrRetryCnt        QPAttrMask = 1 << 10
	QPAttrRNRRetry        QPAttrMask = 1 << 11
	QPAttrRQPSN           QPAttrMask = 1 << 12
	QPAttrMaxQPRDAtomic   QPAttrMask = 1 << 13
	QPAttrAltPath         QPAttrMask = 1 << 14
	QPAttrRNRTimer        QPAttrMask = 1 << 15
	QPAttrSQPSN           QPAttrMask = 1 << 16
	QPAttrMaxDestRDAtomic QPAttrMask = 1 << 17
	QPAttrPathMigState    QPAttrMask = 1 << 18
	QPAttrCap             QPAttrMask = 1 << 19
	QPAttrDestQPN         QPAttrMask = 1 << 20
	QPAttrRateLimit       QPAttrMask = 1 << 25
)

var attrNames = map[int]string{
	0: "State", 1: "CurState", 2: "EnSQDAsync", 3: "Access", 4: "PKeyIndex", 5: "Port", 6: "QKey", 7: "AV", 8: "PathMTU",
	9: "AckTimeout", 10: "RetryCnt", 11: "RNRRetry", 12: "RQPSN", 13: "MaxQPRDAtomic", 14: "AltPath", 15: "RNRTimer",
	16: "SQPSN", 17: "MaxDestRDAtomic", 18: "PathMigState", 19: "Cap", 20: "DestQPN", 25: "RateLimit",
}

// String returns the names of the bits.
func (m QPAttrMask) String() string { return bitNames(uint64(m), attrNames) }

// PathMigState is the state of automatic path migration.
//
// C: enum ib_mig_state
type PathMigState uint8

// The states of the verbs specification.
const (
	PathMigMigrated PathMigState = 0
	PathMigRearm    PathMigState = 1
	PathMigArmed    PathMigState = 2
)

var pathMigNames = [...]string{"MIGRATED", "REARM", "ARMED"}

// String returns iproute2's name, or PathMigState(27) for a value without one.
func (s PathMigState) String() string { return wordFor("PathMigState", pathMigNames[:], uint8(s)) }

// DataOrder is the extent to which the data of one message becomes visible in memory in order. If all of it does, a
// program may wait for the last byte instead of a completion. The values combine with |; 0 means no guarantee.
//
// C: enum ibv_query_qp_data_in_order_caps
type DataOrder uint32

const (
	// DataOrderWholeMessage means in order within the whole message.
	DataOrderWholeMessage DataOrder = 1 << 0
	// DataOrderAligned128 means in order within each aligned block of 128 bytes.
	DataOrderAligned128 DataOrder = 1 << 1
)

// String returns the names of the bits.
func (o DataOrder) String() string {
	return bitNames(uint64(o), map[int]string{0: "WholeMessage", 1: "Aligned128"})
}

// SRQAttr is the state of an SRQ.
//
// C: struct ibv_srq_attr
type SRQAttr struct {
	MaxWR, MaxSGE uint32
	Limit         uint32 // the last value set; some drivers reset it to 0 when they raise the event
}
