package verbs

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// DeviceAttr has the capabilities and limits of a device.
//
// C: struct ibv_device_attr_ex
type DeviceAttr struct {
	FWVer                         uint64
	NodeGUID, SysImageGUID        GUID
	MaxMRSize                     uint64 // bytes
	PageSizeCap                   uint64 // one bit for each page size
	VendorID, VendorPartID, HWVer uint32
	CapFlags                      DeviceCap
	MaxQP, MaxQPWR                uint32
	MaxSGE, MaxSGERead            uint32
	MaxCQ, MaxCQE                 uint32
	MaxMR, MaxPD, MaxMW, MaxAH    uint32
	MaxQPRDAtom, MaxResRDAtom     uint32 // reads and atomics in flight, as responder
	MaxQPInitRDAtom               uint32 // and as initiator
	AtomicCap                     AtomicCap
	MaxMcastGrp, MaxMcastQPAttach uint32
	MaxTotalMcastQPAttach         uint32
	MaxSRQ, MaxSRQWR, MaxSRQSGE   uint32
	MaxPKeys                      uint16
	LocalCAAckDelay               uint8
	PhysPortCnt                   int
	TimestampMask, HCACoreClock   uint64 // mask of completion timestamps; frequency of their clock in kHz
	MaxDMSize                     uint64 // bytes of device memory
	ODP                           ODPCaps
	CQModerationMaxCount          uint16
	CQModerationMaxPeriod         uint16 // µs
	RSS                           RSSCaps
	MaxWQTypeRQ                   uint32 // receive queues that belong to no QP
	RawPacketCaps                 uint32 // a set of IB_UVERBS_RAW_PACKET_CAP_…
	TagMatching                   TagMatchingCaps
	TSO                           TSOCaps
	PacketPacing                  PacketPacingCaps
	DCStreams                     DCStreams // the limits of uverbs.QPOptions.DCStreams; zero if a DCI has no streams
	// MaxRDMASize is the number of bytes of one RDMA read or write on EFA, whose limit for sends is
	// PortAttr.MaxMsgSize. It is 0 on other devices, and without a provider.
	//
	// C: max_rdma_size of struct efadv_device_attr
	MaxRDMASize uint32
}

// DeviceCap is a set of capabilities of a device.
//
// C: enum ibv_device_cap_flags, with the bits that verbs.h defines apart
type DeviceCap uint64

// The capabilities. Bits of newer kernels have no name here.
const (
	DeviceCapResizeMaxWR    = DeviceCap(abi.IB_UVERBS_DEVICE_RESIZE_MAX_WR)
	DeviceCapBadPKeyCounter = DeviceCap(abi.IB_UVERBS_DEVICE_BAD_PKEY_CNTR)
	DeviceCapBadQKeyCounter = DeviceCap(abi.IB_UVERBS_DEVICE_BAD_QKEY_CNTR)
	DeviceCapRawMulti       = DeviceCap(abi.IB_UVERBS_DEVICE_RAW_MULTI)
	// DeviceCapAutoPathMig means that QPs can migrate to their alternate path.
	DeviceCapAutoPathMig     = DeviceCap(abi.IB_UVERBS_DEVICE_AUTO_PATH_MIG)
	DeviceCapChangePhyPort   = DeviceCap(abi.IB_UVERBS_DEVICE_CHANGE_PHY_PORT)
	DeviceCapUDAVPortEnforce = DeviceCap(abi.IB_UVERBS_DEVICE_UD_AV_PORT_ENFORCE)
	// DeviceCapCurQPStateMod means that QPAttrCurState has an effect.
	DeviceCapCurQPStateMod   = DeviceCap(abi.IB_UVERBS_DEVICE_CURR_QP_STATE_MOD)
	DeviceCapShutdownPort    = DeviceCap(abi.IB_UVERBS_DEVICE_SHUTDOWN_PORT)
	DeviceCapPortActiveEvent = DeviceCap(abi.IB_UVERBS_DEVICE_PORT_ACTIVE_EVENT)
	DeviceCapSysImageGUID    = DeviceCap(abi.IB_UVERBS_DEVICE_SYS_IMAGE_GUID)
	DeviceCapRCRNRNAKGen     = DeviceCap(abi.IB_UVERBS_DEVICE_RC_RNR_NAK_GEN)
	// DeviceCapSRQResize means that SRQ.Resize works.
	DeviceCapSRQResize = DeviceCap(abi.IB_UVERBS_DEVICE_SRQ_RESIZE)
	DeviceCapNNotifyCQ = DeviceCap(abi.IB_UVERBS_DEVICE_N_NOTIFY_CQ)
	// DeviceCapMemWindow means that the device has windows of MWType1.
	DeviceCapMemWindow = DeviceCap(abi.IB_UVERBS_DEVICE_MEM_WINDOW)
	DeviceCapUDIPCsum  = DeviceCap(abi.IB_UVERBS_DEVICE_UD_IP_CSUM)
	DeviceCapXRC       = DeviceCap(abi.IB_UVERBS_DEVICE_XRC)
	// DeviceCapMemMgtExtensions means that the device has OpLocalInv and
	// OpSendWithInv.
	DeviceCapMemMgtExtensions = DeviceCap(abi.IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS)
	// DeviceCapMemWindowType2A and DeviceCapMemWindowType2B mean that the device has
	// windows of MWType2. They belong to a QP number (2A) or to a QP and its PD
	// (2B).
	DeviceCapMemWindowType2A     = DeviceCap(abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2A)
	DeviceCapMemWindowType2B     = DeviceCap(abi.IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B)
	DeviceCapRCIPCsum            = DeviceCap(abi.IB_UVERBS_DEVICE_RC_IP_CSUM)
	DeviceCapRawIPCsum           = DeviceCap(abi.IB_UVERBS_DEVICE_RAW_IP_CSUM)
	DeviceCapManagedFlowSteering = DeviceCap(abi.IB_UVERBS_DEVICE_MANAGED_FLOW_STEERING)
	DeviceCapRawScatterFCS       = DeviceCap(abi.IB_UVERBS_DEVICE_RAW_SCATTER_FCS)
	DeviceCapPCIWriteEndPadding  = DeviceCap(abi.IB_UVERBS_DEVICE_PCI_WRITE_END_PADDING)
	// DeviceCapFlushGlobal and DeviceCapFlushPersistent mean that the device has
	// OpFlush of that type.
	DeviceCapFlushGlobal     = DeviceCap(abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL)
	DeviceCapFlushPersistent = DeviceCap(abi.IB_UVERBS_DEVICE_FLUSH_PERSISTENT)
	// DeviceCapAtomicWrite means that the device has OpAtomicWrite.
	DeviceCapAtomicWrite = DeviceCap(abi.IB_UVERBS_DEVICE_ATOMIC_WRITE)
	// DeviceCapCCDMABounce means that the system is a confidential guest whose pages
	// the device can't access. The kernel refuses regions of its ordinary memory.
	// Only kernels newer than Linux 7.2 have the flag.
	DeviceCapCCDMABounce = DeviceCap(abi.IB_UVERBS_DEVICE_CC_DMA_BOUNCE)
)

var deviceCapNames = map[int]string{
	0: "ResizeMaxWR", 1: "BadPKeyCounter", 2: "BadQKeyCounter", 3: "RawMulti", 4: "AutoPathMig", 5: "ChangePhyPort",
	6: "UDAVPortEnforce", 7: "CurQPStateMod", 8: "ShutdownPort", 10: "PortActiveEvent", 11: "SysImageGUID",
	12: "RCRNRNAKGen", 13: "SRQResize", 14: "NNotifyCQ", 17: "MemWindow", 18: "UDIPCsum", 20: "XRC",
	21: "MemMgtExtensions", 23: "MemWindowType2A", 24: "MemWindowType2B", 25: "RCIPCsum", 26: "RawIPCsum",
	29: "ManagedFlowSteering", 34: "RawScatterFCS", 36: "PCIWriteEndPadding", 38: "FlushGlobal",
	39: "FlushPersistent", 40: "AtomicWrite", 41: "CCDMABounce",
}

// String returns the names of the bits. Bits without a name print as a number.
func (c DeviceCap) String() string { return bitNames(uint64(c), deviceCapNames) }

// AtomicCap is the scope of a device's atomic operations.
//
// C: enum ibv_atomic_cap
type AtomicCap uint32

const (
	AtomicNone   AtomicCap = 0 // no atomic operations
	AtomicHCA    AtomicCap = 1 // atomic with respect to the same device
	AtomicGlobal AtomicCap = 2 // atomic also with respect to other devices and processors
)

// String returns none, HCA or global.
func (c AtomicCap) String() string {
	switch c {
	case AtomicNone:
		return "none"
	case AtomicHCA:
		return "HCA"
	case AtomicGlobal:
		return "global"
	}
	return fmt.Sprintf("AtomicCap(%d)", uint32(c))
}

// ODPCaps describes a device's support for regions with AccessOnDemand.
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
	// ODPSupport means that the device supports on-demand paging.
	ODPSupport = ODPGeneral(abi.IB_ODP_SUPPORT)
	// ODPImplicit means that a region can cover the whole address space.
	ODPImplicit = ODPGeneral(abi.IB_ODP_SUPPORT_IMPLICIT)
)

// String returns the names of the bits.
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

// String returns the names of the bits.
func (c ODPTransport) String() string {
	return bitNames(uint64(c), map[int]string{0: "Send", 1: "Recv", 2: "Write", 3: "Read", 4: "Atomic", 5: "SRQRecv",
		6: "Flush", 7: "AtomicWrite"})
}

// RSSCaps has the limits for distributing packets among receive queues that belong to no QP.
//
// C: struct ibv_rss_caps
type RSSCaps struct {
	SupportedQPTypes        uint32 // one bit for each QP type
	MaxIndirectionTables    uint32
	MaxIndirectionTableSize uint32 // entries in one table
	// HashFunctions has a bit for each rss.HashFunction, and HashFields is a set of rss.HashFields.
	// The drivers report them in private bytes, so they are 0 without a provider.
	HashFunctions uint8
	HashFields    uint64
}

// TSOCaps has the limits of OpTSO. It is zero if the device or its provider has no OpTSO.
//
// C: struct ibv_tso_caps
type TSOCaps struct {
	MaxPayload       uint32 // bytes of SGL in one work request
	SupportedQPTypes uint32 // one bit for each QP type
}

// DCStreams describes the streams of a DCI. The requests of one stream are carried out in order. Those of
// others don't wait for them, so that a target that does not answer holds up only the streams that
// lead to it. A request that fails ends its stream: the other requests of the stream are flushed. When
// as many streams have failed as Errored says, the DCI goes to ERR. Moving the DCI to RESET brings all of
// them back. One stream alone can't be brought back: that takes DEVX.
//
// C: struct mlx5dv_dci_streams, with the logarithms of the numbers
type DCStreams struct {
	// Concurrent is the number of streams that the device carries out at the same time. The streams of
	// requests may have any numbers. Errored is the number of streams whose failure ends the DCI. Both are
	// powers of two.
	Concurrent, Errored uint32
}

// PacketPacingCaps has the limits of QPAttr.RateLimit. It is zero if the device or its provider has
// no rate limits.
//
// C: struct ibv_packet_pacing_caps
type PacketPacingCaps struct {
	MinRate, MaxRate uint32 // kbit/s
	SupportedQPTypes uint32 // one bit for each QP type
	Burst            bool   // QPAttr.MaxBurst and QPAttr.TypicalPacket have an effect
}

// TagMatchingCaps has the limits of SRQs that match tags.
//
// C: struct ibv_tm_caps
type TagMatchingCaps struct {
	MaxRndvHdrSize uint32 // bytes of a rendezvous request
	MaxTags        uint32 // 0: there is no tag matching
	Flags          uint32
	MaxOps, MaxSGE uint32
}

// NodeType is the kind of a device.
//
// C: enum rdma_node_type
type NodeType uint8

// The node types that the kernel defines.
const (
	NodeCA          NodeType = 1 // InfiniBand or RoCE adapter
	NodeSwitch      NodeType = 2
	NodeRouter      NodeType = 3
	NodeRNIC        NodeType = 4 // iWARP adapter
	NodeUSNIC       NodeType = 5
	NodeUSNICUDP    NodeType = 6
	NodeUnspecified NodeType = 7 // a driver with a transport of its own, such as efa
)

var nodeTypeNames = [...]string{
	NodeCA: "ca", NodeSwitch: "switch", NodeRouter: "router", NodeRNIC: "rnic",
	NodeUSNIC: "usnic", NodeUSNICUDP: "usnic_udp", NodeUnspecified: "unspecified",
}

// String returns iproute2's name, or NodeType(27) for a value without one.
func (t NodeType) String() string {
	if int(t) < len(nodeTypeNames) && nodeTypeNames[t] != "" {
		return nodeTypeNames[t]
	}
	return fmt.Sprintf("NodeType(%d)", uint8(t))
}

// DriverID identifies the kernel driver of a device.
//
// C: enum rdma_driver_id
type DriverID uint32

// The drivers that Linux assigns numbers to.
const (
	DriverUnknown DriverID = 0
	DriverMLX5    DriverID = 1
	DriverMLX4    DriverID = 2
	DriverCXGB4   DriverID = 4
	DriverMTHCA   DriverID = 5
	DriverBNXTRE  DriverID = 6
	DriverOCRDMA  DriverID = 7
	DriverIRDMA   DriverID = 9
	DriverPVRDMA  DriverID = 10
	DriverQEDR    DriverID = 11
	DriverHNS     DriverID = 12
	DriverUSNIC   DriverID = 13
	DriverRXE     DriverID = 14
	DriverHFI1    DriverID = 15
	DriverQIB     DriverID = 16
	DriverEFA     DriverID = 17
	DriverSIW     DriverID = 18
	DriverERDMA   DriverID = 19
	DriverMANA    DriverID = 20
	DriverIonic   DriverID = 21
)

var idNames = map[DriverID]string{
	DriverMLX5: "mlx5", DriverMLX4: "mlx4", DriverCXGB4: "cxgb4", DriverMTHCA: "mthca",
	DriverBNXTRE: "bnxt_re", DriverOCRDMA: "ocrdma", DriverIRDMA: "irdma", DriverPVRDMA: "vmw_pvrdma",
	DriverQEDR: "qedr", DriverHNS: "hns", DriverUSNIC: "usnic", DriverRXE: "rxe", DriverHFI1: "hfi1",
	DriverQIB: "qib", DriverEFA: "efa", DriverSIW: "siw", DriverERDMA: "erdma", DriverMANA: "mana", DriverIonic: "ionic",
}

func (i DriverID) String() string {
	if s, ok := idNames[i]; ok {
		return s
	}
	return fmt.Sprintf("DriverID(%d)", uint32(i))
}

// ObjectKind is a kind of the kernel's objects.
//
// C: enum uverbs_default_objects
type ObjectKind uint16

// The kinds that have handles.
const (
	ObjectPD          ObjectKind = abi.UVERBS_OBJECT_PD
	ObjectCQ          ObjectKind = abi.UVERBS_OBJECT_CQ
	ObjectQP          ObjectKind = abi.UVERBS_OBJECT_QP
	ObjectSRQ         ObjectKind = abi.UVERBS_OBJECT_SRQ
	ObjectAH          ObjectKind = abi.UVERBS_OBJECT_AH
	ObjectMR          ObjectKind = abi.UVERBS_OBJECT_MR
	ObjectMW          ObjectKind = abi.UVERBS_OBJECT_MW
	ObjectFlow        ObjectKind = abi.UVERBS_OBJECT_FLOW
	ObjectXRCD        ObjectKind = abi.UVERBS_OBJECT_XRCD
	ObjectRWQIndTable ObjectKind = abi.UVERBS_OBJECT_RWQ_IND_TBL
	ObjectWQ          ObjectKind = abi.UVERBS_OBJECT_WQ
	ObjectDM          ObjectKind = abi.UVERBS_OBJECT_DM
	ObjectCounters    ObjectKind = abi.UVERBS_OBJECT_COUNTERS
)
