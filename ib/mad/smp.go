package mad

import "github.com/goverbs/goverbs/verbs"

// Attributes of subnet management. The attribute modifier is the number of a port, the number of a
// block of a table, or both.
const (
	AttrNodeDescription          AttrID = 0x0010
	AttrNodeInfo                 AttrID = 0x0011
	AttrSwitchInfo               AttrID = 0x0012
	AttrGUIDInfo                 AttrID = 0x0014 // modifier: block of 8 entries
	AttrPortInfo                 AttrID = 0x0015 // modifier: port, and ExtendedSpeeds
	AttrPKeyTable                AttrID = 0x0016 // modifier: port<<16 | block of 32 entries
	AttrSL2VLTable               AttrID = 0x0017 // modifier: input port<<8 | output port
	AttrVLArbTable               AttrID = 0x0018 // modifier: block<<16 | port; blocks 1 and 2 have low priority, 3 and 4 high
	AttrLinearForwardingTable    AttrID = 0x0019 // modifier: block of 64 entries
	AttrMulticastForwardingTable AttrID = 0x001b // modifier: group of 16 ports<<28 | block of 32 entries
	AttrSMInfo                   AttrID = 0x0020
	attrPortInfoExtended         AttrID = 0x0033 // modifier: port
	AttrMlnxExtPortInfo          AttrID = 0xff90 // modifier: port; only Mellanox devices
)

// ExtendedSpeeds is the bit of the modifier of AttrPortInfo that requests extended speeds.
const ExtendedSpeeds uint32 = 1 << 31

// NodeType is the kind of a node.
type NodeType uint8

// The kinds of nodes.
const (
	NodeCA     NodeType = 1 // channel adapter
	NodeSwitch NodeType = 2
	NodeRouter NodeType = 3
)

func (t NodeType) String() string { return nodeTypes.text(uint64(t), "?(%d)?") }

// LinkWidth is a set of widths of a link.
type LinkWidth uint8

// The widths of links.
const (
	Width1X  LinkWidth = 1
	Width4X  LinkWidth = 2
	Width8X  LinkWidth = 4
	Width12X LinkWidth = 8
	Width2X  LinkWidth = 16
)

// String returns the width in the format of C's tools, such as "4X", or "1X or 4X" for a set.
func (w LinkWidth) String() string { return linkWidthSet(uint64(w)) }

// Lanes returns the number of lanes of a width, or 0 if it isn't one of the constants.
func (w LinkWidth) Lanes() int {
	switch w {
	case Width1X:
		return 1
	case Width2X:
		return 2
	case Width4X:
		return 4
	case Width8X:
		return 8
	case Width12X:
		return 12
	}
	return 0
}

// SMState is the state of a subnet manager.
type SMState uint8

// The states of a subnet manager.
const (
	SMNotActive   SMState = 0
	SMDiscovering SMState = 1
	SMStandby     SMState = 2
	SMMaster      SMState = 3
)

func (s SMState) String() string { return smStates.text(uint64(s), "SMState(%d)") }

// NodeDescription is the name of a node, which its host chooses.
type NodeDescription struct {
	Text string `mad:"0:512,NodeDesc,string"` // UTF-8 as received; see Printable
}

func (*NodeDescription) attribute() *Layout { return layoutNodeDescription() }

// NodeInfo describes a node, and the port through which the node received the request.
//
// C: ib_node_info
type NodeInfo struct {
	BaseVersion  uint8      `mad:"0:8,BaseVers,uint"`
	ClassVersion uint8      `mad:"1:8,ClassVers,uint"`
	Type         NodeType   `mad:"2:8,NodeType,node_type"`
	NumPorts     uint8      `mad:"3:8,NumPorts,uint"`   // without port 0 of a switch
	SystemGUID   verbs.GUID `mad:"4:64,SystemGuid,hex"` // of the system image
	NodeGUID     verbs.GUID `mad:"12:64,Guid,hex"`
	PortGUID     verbs.GUID `mad:"20:64,PortGuid,hex"` // for a switch, the GUID of its port 0
	PartitionCap uint16     `mad:"28:16,PartCap,uint"` // number of entries of the P_Key table
	DeviceID     uint16     `mad:"30:16,DevId,hex"`
	Revision     uint32     `mad:"32:32,Revision,hex"`
	LocalPort    uint8      `mad:"36:8,LocalPort,uint"`
	VendorID     uint32     `mad:"37:24,VendorId,hex"`
}

func (*NodeInfo) attribute() *Layout { return layoutNodeInfo() }

// SwitchInfo describes a switch and its forwarding tables.
//
// C: ib_switch_info
type SwitchInfo struct {
	LinearFDBCap                   uint16 `mad:"0:16,LinearFdbCap,uint"` // LIDs
	RandomFDBCap                   uint16 `mad:"2:16,RandomFdbCap,uint"`
	MulticastFDBCap                uint16 `mad:"4:16,McastFdbCap,uint"`  // MLIDs
	LinearFDBTop                   uint16 `mad:"6:16,LinearFdbTop,uint"` // last used LID of the linear forwarding table
	DefaultPort                    uint8  `mad:"8:8,DefPort,uint"`
	DefaultMulticastPrimaryPort    uint8  `mad:"9:8,DefMcastPrimPort,uint"`
	DefaultMulticastNotPrimaryPort uint8  `mad:"10:8,DefMcastNotPrimPort,uint"`
	LifeTime                       uint8  `mad:"11:5,LifeTime,uint"`
	StateChange                    bool   `mad:"11.5:1,StateChange,uint"` // a port has changed its state since this bit was cleared; writing 1 clears it
	OptimizedSLtoVLMapping         uint8  `mad:"11.6:2,OptSLtoVLMapping,uint"`
	LIDsPerPort                    uint16 `mad:"12:16,LidsPerPort,uint"`
	PartitionEnforceCap            uint16 `mad:"14:16,PartEnforceCap,uint"`
	InboundPartitionEnforcement    bool   `mad:"16:1,InboundPartEnf,uint"`
	OutboundPartitionEnforcement   bool   `mad:"16.1:1,OutboundPartEnf,uint"`
	FilterRawInbound               bool   `mad:"16.2:1,FilterRawInbound,uint"`
	FilterRawOutbound              bool   `mad:"16.3:1,FilterRawOutbound,uint"`
	EnhancedPort0                  bool   `mad:"16.4:1,EnhancedPort0,uint"`
	MulticastFDBTop                uint16 `mad:"18:16,MulticastFDBTop,hex"`
}

func (*SwitchInfo) attribute() *Layout { return layoutSwitchInfo() }

// GUIDInfo is a block of 8 entries of the GUID table of a port.
type GUIDInfo struct {
	GUIDs [8]verbs.GUID `mad:"0:64,GUID%d,hex"`
}

func (*GUIDInfo) attribute() *Layout { return layoutGUIDInfo() }

// PortInfo holds the state and the configuration of a port.
//
// C: ib_port_info
type PortInfo struct {
	MKey                         uint64          `mad:"0:64,Mkey,mkey"`
	GIDPrefix                    uint64          `mad:"8:64,GidPrefix,hex"`
	LID                          uint16          `mad:"16:16,Lid,uint"`
	SMLID                        uint16          `mad:"18:16,SMLid,uint"`
	CapMask                      uint32          `mad:"20:32,CapMask,portcapmask"`
	DiagCode                     uint16          `mad:"24:16,DiagCode,hex"`
	MKeyLeasePeriod              uint16          `mad:"26:16,MkeyLeasePeriod,uint"` // seconds
	LocalPort                    uint8           `mad:"28:8,LocalPort,uint"`        // the port that received the request
	LinkWidthEnabled             LinkWidth       `mad:"29:8,LinkWidthEnabled,linkwidthen"`
	LinkWidthSupported           LinkWidth       `mad:"30:8,LinkWidthSupported,linkwidthsup"`
	LinkWidthActive              LinkWidth       `mad:"31:8,LinkWidthActive,linkwidth"`
	LinkSpeedSupported           uint8           `mad:"32:4,LinkSpeedSupported,linkspeedsup"` // 1: 2.5, 2: 5, 4: 10 Gb/s a lane
	LinkState                    verbs.PortState `mad:"32.4:4,LinkState,portstate"`
	PhysLinkState                verbs.PhysState `mad:"33:4,PhysLinkState,physportstate"`
	LinkDownDefaultState         uint8           `mad:"33.4:4,LinkDownDefState,linkdowndefstate"`
	ProtectBits                  uint8           `mad:"34:2,ProtectBits,uint"`
	LMC                          uint8           `mad:"34.5:3,LMC,uint"` // the port has 2^LMC LIDs
	LinkSpeedActive              uint8           `mad:"35:4,LinkSpeedActive,linkspeed"`
	LinkSpeedEnabled             uint8           `mad:"35.4:4,LinkSpeedEnabled,linkspeeden"`
	NeighborMTU                  verbs.MTU       `mad:"36:4,NeighborMTU,mtu"`
	SMSL                         uint8           `mad:"36.4:4,SMSL,uint"`
	VLCap                        uint8           `mad:"37:4,VLCap,vlcap"`
	InitType                     uint8           `mad:"37.4:4,InitType,hex"`
	VLHighLimit                  uint8           `mad:"38:8,VLHighLimit,uint"`
	VLArbHighCap                 uint8           `mad:"39:8,VLArbHighCap,uint"`
	VLArbLowCap                  uint8           `mad:"40:8,VLArbLowCap,uint"`
	InitReply                    uint8           `mad:"41:4,InitReply,hex"`
	MTUCap                       verbs.MTU       `mad:"41.4:4,MtuCap,mtu"`
	VLStallCount                 uint8           `mad:"42:3,VLStallCount,uint"`
	HOQLife                      uint8           `mad:"42.3:5,HoqLife,uint"`
	OperVLs                      uint8           `mad:"43:4,OperVLs,opervls"`
	PartitionEnforceInbound      bool            `mad:"43.4:1,PartEnforceInb,uint"`
	PartitionEnforceOutbound     bool            `mad:"43.5:1,PartEnforceOutb,uint"`
	FilterRawInbound             bool            `mad:"43.6:1,FilterRawInb,uint"`
	FilterRawOutbound            bool            `mad:"43.7:1,FilterRawOutb,uint"`
	MKeyViolations               uint16          `mad:"44:16,MkeyViolations,uint"`
	PKeyViolations               uint16          `mad:"46:16,PkeyViolations,uint"`
	QKeyViolations               uint16          `mad:"48:16,QkeyViolations,uint"`
	GUIDCap                      uint8           `mad:"50:8,GuidCap,uint"` // entries of the GUID table
	ClientReregister             bool            `mad:"51:1,ClientReregister,uint"`
	MulticastPKeyTrapSuppression uint8           `mad:"51.1:2,McastPkeyTrapSuppressionEnabled,uint"`
	SubnetTimeout                uint8           `mad:"51.3:5,SubnetTimeout,uint"` // 4.096 us * 2^SubnetTimeout
	RespTime                     uint8           `mad:"52.3:5,RespTimeVal,uint"`   // 4.096 us * 2^RespTime
	LocalPhysErrors              uint8           `mad:"53:4,LocalPhysErr,uint"`
	OverrunErrors                uint8           `mad:"53.4:4,OverrunErr,uint"`
	MaxCreditHint                uint16          `mad:"54:16,MaxCreditHint,uint"`
	RoundTripLatency             uint32          `mad:"57:24,RoundTrip,uint"`
	CapMask2                     uint16          `mad:"60:16,CapabilityMask2,portcapmask2"`
	LinkSpeedExtActive           uint8           `mad:"62:4,LinkSpeedExtActive,linkspeedext"` // 1: FDR, 2: EDR, 4: HDR, 8: NDR
	LinkSpeedExtSupported        uint8           `mad:"62.4:4,LinkSpeedExtSupported,linkspeedextsup"`
	LinkSpeedExtEnabled          uint8           `mad:"63.3:5,LinkSpeedExtEnabled,linkspeedexten"` // 30: extended speeds are off
	LinkSpeedExtActive2          uint8           `mad:"56.1:2,LinkSpeedExtActive2,linkspeedext2"`  // 1: XDR
	LinkSpeedExtSupported2       uint8           `mad:"56.3:2,LinkSpeedExtSupported2,linkspeedextsup2"`
	LinkSpeedExtEnabled2         uint8           `mad:"56.5:3,LinkSpeedExtEnabled2,linkspeedexten2"`
}

func (*PortInfo) attribute() *Layout { return layoutPortInfo() }

// PKeyTable is a block of 32 entries of the P_Key table of a port. Bit 15 of an entry means full membership. The
// entries 0 and 0x8000 are unused.
type PKeyTable struct {
	PKeys [32]uint16 `mad:"0:16,PKey%d,hex"`
}

func (*PKeyTable) attribute() *Layout { return layoutPKeyTable() }

// SL2VLTable maps service levels to virtual lanes, for one input and one output port.
type SL2VLTable struct {
	VL [16]uint8 `mad:"0:4,VL%d,uint"`
}

func (*SL2VLTable) attribute() *Layout { return layoutSL2VLTable() }

// VLArbEntry gives a virtual lane a share of the link.
type VLArbEntry struct {
	VL     uint8 `mad:"0.4:4,VL%d,hex"`
	Weight uint8 `mad:"1:8,Weight%d,hex"` // in units of 64 bytes; 0 skips the entry
}

// VLArbTable is a block of 32 entries of a table that divides a link among virtual lanes.
type VLArbTable struct {
	Entries [32]VLArbEntry `mad:"0:16"`
}

func (*VLArbTable) attribute() *Layout { return layoutVLArbTable() }

// LinearForwardingTable is a block of 64 entries of a switch's linear forwarding table.
type LinearForwardingTable struct {
	Ports [64]uint8 `mad:"0:8,Port%d,uint"` // output port by LID; 0 is the switch itself, 255 means none
}

func (*LinearForwardingTable) attribute() *Layout { return layoutLinearForwardingTable() }

// MulticastForwardingTable is a block of 32 entries of a switch's multicast forwarding table, for 16 of its ports.
type MulticastForwardingTable struct {
	Ports [32]uint16 `mad:"0:16,PortMask%d,hex"` // a bit for each output port, by MLID
}

func (*MulticastForwardingTable) attribute() *Layout { return layoutMulticastForwardingTable() }

// SMInfo holds the state of the subnet manager of a port.
//
// C: ib_sm_info
type SMInfo struct {
	GUID     verbs.GUID `mad:"0:64,SmInfoGuid,hex"`
	Key      uint64     `mad:"8:64,SmInfoKey,hex"`
	Activity uint32     `mad:"16:32,SmActivity,uint"` // increases while the subnet manager works
	Priority uint8      `mad:"20:4,SmPriority,uint"`
	State    SMState    `mad:"20.4:4,SmState,uint"`
}

func (*SMInfo) attribute() *Layout { return layoutSMInfo() }

// PortInfoExtended holds the modes of forward error correction of a port.
type PortInfoExtended struct {
	CapMask             uint32 `mad:"0:32,CapMask,hex"`
	FECModeActive       uint16 `mad:"4:16,FECModeActive,hex"`
	FDRFECModeSupported uint16 `mad:"6:16,FDRFECModeSupported,hex"`
	FDRFECModeEnabled   uint16 `mad:"8:16,FDRFECModeEnabled,hex"`
	EDRFECModeSupported uint16 `mad:"10:16,EDRFECModeSupported,hex"`
	EDRFECModeEnabled   uint16 `mad:"12:16,EDRFECModeEnabled,hex"`
	HDRFECModeSupported uint16 `mad:"14:16,HDRFECModeSupported,hex"`
	HDRFECModeEnabled   uint16 `mad:"16:16,HDRFECModeEnabled,hex"`
	NDRFECModeSupported uint16 `mad:"18:16,NDRFECModeSupported,hex"`
	NDRFECModeEnabled   uint16 `mad:"20:16,NDRFECModeEnabled,hex"`
}

func (*PortInfoExtended) attribute() *Layout { return layoutPortInfoExtended() }

// MlnxExtPortInfo is an attribute of Mellanox devices. Bit 0 of a speed is FDR10.
type MlnxExtPortInfo struct {
	StateChangeEnable  uint8 `mad:"3:8,StateChangeEnable,hex"`
	LinkSpeedSupported uint8 `mad:"7:8,LinkSpeedSupported,hex"`
	LinkSpeedEnabled   uint8 `mad:"11:8,LinkSpeedEnabled,hex"`
	LinkSpeedActive    uint8 `mad:"15:8,LinkSpeedActive,hex"`
}

func (*MlnxExtPortInfo) attribute() *Layout { return layoutMlnxExtPortInfo() }

// The layouts of the attributes in this file.
var (
	layoutNodeDescription          = layoutOf[NodeDescription](ClassLID, AttrNodeDescription, 64)
	layoutNodeInfo                 = layoutOf[NodeInfo](ClassLID, AttrNodeInfo, 40)
	layoutSwitchInfo               = layoutOf[SwitchInfo](ClassLID, AttrSwitchInfo, 20)
	layoutGUIDInfo                 = layoutOf[GUIDInfo](ClassLID, AttrGUIDInfo, 64)
	layoutPortInfo                 = layoutOf[PortInfo](ClassLID, AttrPortInfo, 64)
	layoutPKeyTable                = layoutOf[PKeyTable](ClassLID, AttrPKeyTable, 64)
	layoutSL2VLTable               = layoutOf[SL2VLTable](ClassLID, AttrSL2VLTable, 8)
	layoutVLArbTable               = layoutOf[VLArbTable](ClassLID, AttrVLArbTable, 64)
	layoutLinearForwardingTable    = layoutOf[LinearForwardingTable](ClassLID, AttrLinearForwardingTable, 64)
	layoutMulticastForwardingTable = layoutOf[MulticastForwardingTable](ClassLID, AttrMulticastForwardingTable, 64)
	layoutSMInfo                   = layoutOf[SMInfo](ClassLID, AttrSMInfo, 24)
	layoutPortInfoExtended         = layoutOf[PortInfoExtended](ClassLID, attrPortInfoExtended, 64)
	layoutMlnxExtPortInfo          = layoutOf[MlnxExtPortInfo](ClassLID, AttrMlnxExtPortInfo, 64)
)
