package mad

// Attributes of performance management. The modifier is 0. A field of the attribute selects the port.
const (
	attrPortSamplesControl            AttrID = 0x0010
	AttrPortCounters                  AttrID = 0x0012
	AttrPortRcvErrorDetails           AttrID = 0x0015
	AttrPortXmitDiscardDetails        AttrID = 0x0016
	attrPortOpRcvCounters             AttrID = 0x0017
	attrPortFlowCtlCounters           AttrID = 0x0018
	attrPortVLOpPackets               AttrID = 0x0019
	attrPortVLOpData                  AttrID = 0x001a
	attrPortVLXmitFlowCtlUpdateErrors AttrID = 0x001b
	attrPortVLXmitWait                AttrID = 0x001c
	AttrPortCountersExtended          AttrID = 0x001d
	attrPortExtendedSpeedsCounters    AttrID = 0x001f
	attrSwPortVLCongestion            AttrID = 0x0030
	attrPortRcvConCtrl                AttrID = 0x0031
	attrPortSLRcvFECN                 AttrID = 0x0032
	attrPortSLRcvBECN                 AttrID = 0x0033
	attrPortXmitConCtrl               AttrID = 0x0034
	attrPortVLXmitTimeCong            AttrID = 0x0035
	attrPortXmitDataSL                AttrID = 0x0036
	attrPortRcvDataSL                 AttrID = 0x0037
)

// AllPorts is the PortSelect that means all ports of a node. A node supports it if bit 8 of
// ClassPortInfo.CapMask is set.
const AllPorts = 255

// PortCounters holds the counters of a port. A counter that has reached its maximum stays there.
//
// C: ib_port_counters
type PortCounters struct {
	PortSelect                   uint8  `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect                uint16 `mad:"2:16,CounterSelect,hex"`
	SymbolErrors                 uint16 `mad:"4:16,SymbolErrorCounter,uint"`
	LinkErrorRecoveries          uint8  `mad:"6:8,LinkErrorRecoveryCounter,uint"`
	LinkDowned                   uint8  `mad:"7:8,LinkDownedCounter,uint"`
	RcvErrors                    uint16 `mad:"8:16,PortRcvErrors,uint"`
	RcvRemotePhysicalErrors      uint16 `mad:"10:16,PortRcvRemotePhysicalErrors,uint"`
	RcvSwitchRelayErrors         uint16 `mad:"12:16,PortRcvSwitchRelayErrors,uint"`
	XmitDiscards                 uint16 `mad:"14:16,PortXmitDiscards,uint"`
	XmitConstraintErrors         uint8  `mad:"16:8,PortXmitConstraintErrors,uint"`
	RcvConstraintErrors          uint8  `mad:"17:8,PortRcvConstraintErrors,uint"`
	CounterSelect2               uint8  `mad:"18:8,CounterSelect2,hex"`
	LocalLinkIntegrityErrors     uint8  `mad:"19:4,LocalLinkIntegrityErrors,uint"`
	ExcessiveBufferOverrunErrors uint8  `mad:"19.4:4,ExcessiveBufferOverrunErrors,uint"`
	QP1Dropped                   uint16 `mad:"20:16,QP1Dropped,uint"`
	VL15Dropped                  uint16 `mad:"22:16,VL15Dropped,uint"`
	XmitData                     uint32 `mad:"24:32,PortXmitData,uint"` // in words of 4 bytes
	RcvData                      uint32 `mad:"28:32,PortRcvData,uint"`  // in words of 4 bytes
	XmitPkts                     uint32 `mad:"32:32,PortXmitPkts,uint"`
	RcvPkts                      uint32 `mad:"36:32,PortRcvPkts,uint"`
	XmitWait                     uint32 `mad:"40:32,PortXmitWait,uint"` // ticks in which data waited for credits
}

func (*PortCounters) attribute() *Layout { return layoutPortCounters() }

// PortCountersExtended holds the 64-bit counters of a port. The counters after CounterSelect2 are valid if
// bit 1 of ClassPortInfo.CapMask2 is set.
type PortCountersExtended struct {
	PortSelect                   uint8  `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect                uint16 `mad:"2:16,CounterSelect,hex"`
	XmitData                     uint64 `mad:"8:64,PortXmitData,uint"` // in words of 4 bytes
	RcvData                      uint64 `mad:"16:64,PortRcvData,uint"` // in words of 4 bytes
	XmitPkts                     uint64 `mad:"24:64,PortXmitPkts,uint"`
	RcvPkts                      uint64 `mad:"32:64,PortRcvPkts,uint"`
	UnicastXmitPkts              uint64 `mad:"40:64,PortUnicastXmitPkts,uint"`
	UnicastRcvPkts               uint64 `mad:"48:64,PortUnicastRcvPkts,uint"`
	MulticastXmitPkts            uint64 `mad:"56:64,PortMulticastXmitPkts,uint"`
	MulticastRcvPkts             uint64 `mad:"64:64,PortMulticastRcvPkts,uint"`
	CounterSelect2               uint32 `mad:"4:32,CounterSelect2,hex"`
	SymbolErrors                 uint64 `mad:"72:64,SymbolErrorCounter,uint"`
	LinkErrorRecoveries          uint64 `mad:"80:64,LinkErrorRecoveryCounter,uint"`
	LinkDowned                   uint64 `mad:"88:64,LinkDownedCounter,uint"`
	RcvErrors                    uint64 `mad:"96:64,PortRcvErrors,uint"`
	RcvRemotePhysicalErrors      uint64 `mad:"104:64,PortRcvRemotePhysicalErrors,uint"`
	RcvSwitchRelayErrors         uint64 `mad:"112:64,PortRcvSwitchRelayErrors,uint"`
	XmitDiscards                 uint64 `mad:"120:64,PortXmitDiscards,uint"`
	XmitConstraintErrors         uint64 `mad:"128:64,PortXmitConstraintErrors,uint"`
	RcvConstraintErrors          uint64 `mad:"136:64,PortRcvConstraintErrors,uint"`
	LocalLinkIntegrityErrors     uint64 `mad:"144:64,LocalLinkIntegrityErrors,uint"`
	ExcessiveBufferOverrunErrors uint64 `mad:"152:64,ExcessiveBufferOverrunErrors,uint"`
	VL15Dropped                  uint64 `mad:"160:64,VL15Dropped,uint"`
	XmitWait                     uint64 `mad:"168:64,PortXmitWait,uint"`
	QP1Dropped                   uint64 `mad:"176:64,QP1Dropped,uint"`
}

func (*PortCountersExtended) attribute() *Layout { return layoutPortCountersExtended() }

// PortRcvErrorDetails splits PortCounters.RcvErrors.
type PortRcvErrorDetails struct {
	PortSelect          uint8  `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect       uint16 `mad:"2:16,CounterSelect,hex"`
	LocalPhysicalErrors uint16 `mad:"4:16,PortLocalPhysicalErrors,uint"`
	MalformedPktErrors  uint16 `mad:"6:16,PortMalformedPktErrors,uint"`
	BufferOverrunErrors uint16 `mad:"8:16,PortBufferOverrunErrors,uint"`
	DLIDMappingErrors   uint16 `mad:"10:16,PortDLIDMappingErrors,uint"`
	VLMappingErrors     uint16 `mad:"12:16,PortVLMappingErrors,uint"`
	LoopingErrors       uint16 `mad:"14:16,PortLoopingErrors,uint"`
}

func (*PortRcvErrorDetails) attribute() *Layout { return layoutPortRcvErrorDetails() }

// PortXmitDiscardDetails splits PortCounters.XmitDiscards.
type PortXmitDiscardDetails struct {
	PortSelect                 uint8  `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect              uint16 `mad:"2:16,CounterSelect,hex"`
	InactiveDiscards           uint16 `mad:"4:16,PortInactiveDiscards,uint"`
	NeighborMTUDiscards        uint16 `mad:"6:16,PortNeighborMTUDiscards,uint"`
	SwLifetimeLimitDiscards    uint16 `mad:"8:16,PortSwLifetimeLimitDiscards,uint"`
	SwHOQLifetimeLimitDiscards uint16 `mad:"10:16,PortSwHOQLifetimeLimitDiscards,uint"`
}

func (*PortXmitDiscardDetails) attribute() *Layout { return layoutPortXmitDiscardDetails() }

// PortOpRcvCounters counts packets and data that a port received with a chosen opcode.
type PortOpRcvCounters struct {
	PortSelect    uint8  `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16 `mad:"2:16,CounterSelect,hex"`
	Pkts          uint32 `mad:"4:32,PortOpRcvPkts,uint"`
	Data          uint32 `mad:"8:32,PortOpRcvData,uint"` // in words of 4 bytes
}

func (*PortOpRcvCounters) attribute() *Layout { return layoutPortOpRcvCounters() }

// PortFlowCtlCounters counts the flow control packets of a port.
type PortFlowCtlCounters struct {
	PortSelect    uint8  `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16 `mad:"2:16,CounterSelect,hex"`
	XmitPkts      uint32 `mad:"4:32,PortXmitFlowPkts,uint"`
	RcvPkts       uint32 `mad:"8:32,PortRcvFlowPkts,uint"`
}

func (*PortFlowCtlCounters) attribute() *Layout { return layoutPortFlowCtlCounters() }

// PortVLOpPackets counts packets with a chosen opcode by virtual lane.
type PortVLOpPackets struct {
	PortSelect    uint8      `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16     `mad:"2:16,CounterSelect,hex"`
	Counters      [16]uint16 `mad:"4:16,PortVLOpPackets%d,uint"`
}

func (*PortVLOpPackets) attribute() *Layout { return layoutPortVLOpPackets() }

// PortVLOpData counts data with a chosen opcode by virtual lane, in words of 4 bytes.
type PortVLOpData struct {
	PortSelect    uint8      `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16     `mad:"2:16,CounterSelect,hex"`
	Counters      [16]uint32 `mad:"4:32,PortVLOpData%d,uint"`
}

func (*PortVLOpData) attribute() *Layout { return layoutPortVLOpData() }

// PortVLXmitFlowCtlUpdateErrors counts missing flow control updates by virtual lane.
type PortVLXmitFlowCtlUpdateErrors struct {
	PortSelect    uint8     `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16    `mad:"2:16,CounterSelect,hex"`
	Counters      [16]uint8 `mad:"4:2,PortVLXmitFlowCtlUpdateErrors%d,uint"`
}

func (*PortVLXmitFlowCtlUpdateErrors) attribute() *Layout {
	return layoutPortVLXmitFlowCtlUpdateErrors()
}

// PortVLXmitWait counts ticks in which data waited for credits by virtual lane.
type PortVLXmitWait struct {
	PortSelect    uint8      `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16     `mad:"2:16,CounterSelect,hex"`
	Counters      [16]uint16 `mad:"4:16,PortVLXmitWait%d,uint"`
}

func (*PortVLXmitWait) attribute() *Layout { return layoutPortVLXmitWait() }

// SwPortVLCongestion counts packets that a switch marked or dropped by virtual lane.
type SwPortVLCongestion struct {
	PortSelect    uint8      `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16     `mad:"2:16,CounterSelect,hex"`
	Counters      [16]uint16 `mad:"4:16,SWPortVLCongestion%d,uint"`
}

func (*SwPortVLCongestion) attribute() *Layout { return layoutSwPortVLCongestion() }

// PortSLRcvFECN counts packets received with FECN by service level.
type PortSLRcvFECN struct {
	PortSelect    uint8      `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16     `mad:"2:16,CounterSelect,hex"`
	Counters      [16]uint32 `mad:"4:32,PortSLRcvFECN%d,uint"`
}

func (*PortSLRcvFECN) attribute() *Layout { return layoutPortSLRcvFECN() }

// PortSLRcvBECN counts packets received with BECN by service level.
type PortSLRcvBECN struct {
	PortSelect    uint8      `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16     `mad:"2:16,CounterSelect,hex"`
	Counters      [16]uint32 `mad:"4:32,PortSLRcvBECN%d,uint"`
}

func (*PortSLRcvBECN) attribute() *Layout { return layoutPortSLRcvBECN() }

// PortVLXmitTimeCong counts congested time by virtual lane.
type PortVLXmitTimeCong struct {
	PortSelect    uint8      `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16     `mad:"2:16,CounterSelect,hex"`
	Counters      [15]uint32 `mad:"4:32,PortVLXmitTimeCong%d,uint"`
}

func (*PortVLXmitTimeCong) attribute() *Layout { return layoutPortVLXmitTimeCong() }

// PortXmitDataSL counts sent data by service level, in words of 4 bytes.
type PortXmitDataSL struct {
	PortSelect    uint8      `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16     `mad:"2:16,CounterSelect,hex"`
	Counters      [16]uint32 `mad:"4:32,XmtDataSL%d,uint"`
}

func (*PortXmitDataSL) attribute() *Layout { return layoutPortXmitDataSL() }

// PortRcvDataSL counts received data by service level, in words of 4 bytes.
type PortRcvDataSL struct {
	PortSelect    uint8      `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16     `mad:"2:16,CounterSelect,hex"`
	Counters      [16]uint32 `mad:"4:32,RcvDataSL%d,uint"`
}

func (*PortRcvDataSL) attribute() *Layout { return layoutPortRcvDataSL() }

// PortRcvConCtrl counts packets received with a congestion mark.
type PortRcvConCtrl struct {
	PortSelect    uint8  `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16 `mad:"2:16,CounterSelect,hex"`
	FECN          uint32 `mad:"4:32,PortPktRcvFECN,uint"`
	BECN          uint32 `mad:"8:32,PortPktRcvBECN,uint"`
}

func (*PortRcvConCtrl) attribute() *Layout { return layoutPortRcvConCtrl() }

// PortXmitConCtrl holds the congested time of a port.
type PortXmitConCtrl struct {
	PortSelect    uint8  `mad:"1:8,PortSelect,uint"` // 255: all ports
	CounterSelect uint16 `mad:"2:16,CounterSelect,hex"`
	TimeCong      uint32 `mad:"4:32,PortXmitTimeCong,uint"`
}

func (*PortXmitConCtrl) attribute() *Layout { return layoutPortXmitConCtrl() }

// PortExtendedSpeedsCounters holds the error counters of the lanes of a link of FDR or faster. A link with RS-FEC has
// PortExtendedSpeedsRSFECCounters instead.
type PortExtendedSpeedsCounters struct {
	PortSelect             uint8      `mad:"1:8,PortSelect,uint"`
	CounterSelect          uint64     `mad:"8:64,CounterSelect,hex"`
	SyncHeaderErrors       uint16     `mad:"16:16,SyncHeaderErrorCounter,uint"`
	UnknownBlocks          uint16     `mad:"18:16,UnknownBlockCounter,uint"`
	ErrorDetection         [12]uint16 `mad:"20:16,ErrorDetectionCounterLane%d,uint"`
	FECCorrectableBlocks   [12]uint32 `mad:"44:32,FECCorrectableBlockCtrLane%d,uint"`
	FECUncorrectableBlocks [12]uint32 `mad:"92:32,FECUncorrectableBlockCtrLane%d,uint"`
}

func (*PortExtendedSpeedsCounters) attribute() *Layout { return layoutPortExtendedSpeedsCounters() }

// PortExtendedSpeedsRSFECCounters is the form of PortExtendedSpeedsCounters on a link with RS-FEC.
type PortExtendedSpeedsRSFECCounters struct {
	PortSelect             uint8      `mad:"1:8,PortSelect,uint"`
	CounterSelect          uint64     `mad:"8:64,CounterSelect,hex"`
	SyncHeaderErrors       uint16     `mad:"16:16,SyncHeaderErrorCounter,uint"`
	UnknownBlocks          uint16     `mad:"18:16,UnknownBlockCounter,uint"`
	FECCorrectableSymbols  [12]uint32 `mad:"44:32,FECCorrectableSymbolCtrLane%d,uint"`
	FECCorrectableBlocks   uint32     `mad:"140:32,PortFECCorrectableBlockCtr,uint"`
	FECUncorrectableBlocks uint32     `mad:"144:32,PortFECUncorrectableBlockCtr,uint"`
	FECCorrectedSymbols    uint32     `mad:"148:32,PortFECCorrectedSymbolCtr,uint"`
}

func (*PortExtendedSpeedsRSFECCounters) attribute() *Layout {
	return layoutPortExtendedSpeedsRSFECCounters()
}

// PortSamplesControl configures and reports the sampling of counters.
type PortSamplesControl struct {
	OpCode                uint8      `mad:"0:8,OpCode,hex"`
	PortSelect            uint8      `mad:"1:8,PortSelect,uint"`
	Tick                  uint8      `mad:"2:8,Tick,hex"`
	CounterWidth          uint8      `mad:"3.5:3,CounterWidth,uint"`
	CounterMask0          uint8      `mad:"4.2:3,CounterMask0,hex"`
	CounterMasks1to9      uint32     `mad:"4.5:27,CounterMasks1to9,hex"`
	CounterMasks10to14    uint16     `mad:"8.1:15,CounterMasks10to14,hex"`
	SampleMechanisms      uint8      `mad:"10:8,SampleMechanisms,uint"`
	SampleStatus          uint8      `mad:"11.6:2,SampleStatus,uint"`
	OptionMask            uint64     `mad:"12:64,OptionMask,hex"`
	VendorMask            uint64     `mad:"20:64,VendorMask,hex"`
	SampleStart           uint32     `mad:"28:32,SampleStart,uint"`
	SampleInterval        uint32     `mad:"32:32,SampleInterval,uint"`
	Tag                   uint16     `mad:"36:16,Tag,hex"`
	CounterSelect         [15]uint16 `mad:"38:16,CounterSelect%d,hex"`
	SamplesOnlyOptionMask uint64     `mad:"72:64,SamplesOnlyOptionMask,hex"`
}

func (*PortSamplesControl) attribute() *Layout { return layoutPortSamplesControl() }

// The layouts of the attributes in this file.
var (
	layoutPortCounters                    = layoutOf[PortCounters](ClassPerf, AttrPortCounters, 44)
	layoutPortCountersExtended            = layoutOf[PortCountersExtended](ClassPerf, AttrPortCountersExtended, 184)
	layoutPortRcvErrorDetails             = layoutOf[PortRcvErrorDetails](ClassPerf, AttrPortRcvErrorDetails, 16)
	layoutPortXmitDiscardDetails          = layoutOf[PortXmitDiscardDetails](ClassPerf, AttrPortXmitDiscardDetails, 12)
	layoutPortOpRcvCounters               = layoutOf[PortOpRcvCounters](ClassPerf, attrPortOpRcvCounters, 12)
	layoutPortFlowCtlCounters             = layoutOf[PortFlowCtlCounters](ClassPerf, attrPortFlowCtlCounters, 12)
	layoutPortVLOpPackets                 = layoutOf[PortVLOpPackets](ClassPerf, attrPortVLOpPackets, 36)
	layoutPortVLOpData                    = layoutOf[PortVLOpData](ClassPerf, attrPortVLOpData, 68)
	layoutPortVLXmitFlowCtlUpdateErrors   = layoutOf[PortVLXmitFlowCtlUpdateErrors](ClassPerf, attrPortVLXmitFlowCtlUpdateErrors, 8)
	layoutPortVLXmitWait                  = layoutOf[PortVLXmitWait](ClassPerf, attrPortVLXmitWait, 36)
	layoutSwPortVLCongestion              = layoutOf[SwPortVLCongestion](ClassPerf, attrSwPortVLCongestion, 36)
	layoutPortSLRcvFECN                   = layoutOf[PortSLRcvFECN](ClassPerf, attrPortSLRcvFECN, 68)
	layoutPortSLRcvBECN                   = layoutOf[PortSLRcvBECN](ClassPerf, attrPortSLRcvBECN, 68)
	layoutPortVLXmitTimeCong              = layoutOf[PortVLXmitTimeCong](ClassPerf, attrPortVLXmitTimeCong, 64)
	layoutPortXmitDataSL                  = layoutOf[PortXmitDataSL](ClassPerf, attrPortXmitDataSL, 68)
	layoutPortRcvDataSL                   = layoutOf[PortRcvDataSL](ClassPerf, attrPortRcvDataSL, 68)
	layoutPortRcvConCtrl                  = layoutOf[PortRcvConCtrl](ClassPerf, attrPortRcvConCtrl, 12)
	layoutPortXmitConCtrl                 = layoutOf[PortXmitConCtrl](ClassPerf, attrPortXmitConCtrl, 8)
	layoutPortExtendedSpeedsCounters      = layoutOf[PortExtendedSpeedsCounters](ClassPerf, attrPortExtendedSpeedsCounters, 140)
	layoutPortExtendedSpeedsRSFECCounters = layoutOf[PortExtendedSpeedsRSFECCounters](ClassPerf, attrPortExtendedSpeedsCounters, 152)
	layoutPortSamplesControl              = layoutOf[PortSamplesControl](ClassPerf, attrPortSamplesControl, 80)
)
