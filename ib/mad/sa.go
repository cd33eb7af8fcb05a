package mad

import "github.com/goverbs/goverbs/verbs"

// Records of subnet administration.
const (
	AttrNodeRecord       AttrID = 0x0011
	AttrPortInfoRecord   AttrID = 0x0012
	AttrSL2VLTableRecord AttrID = 0x0013
	AttrSwitchInfoRecord AttrID = 0x0014
	AttrLFTRecord        AttrID = 0x0015
	AttrMFTRecord        AttrID = 0x0017
	AttrSMInfoRecord     AttrID = 0x0018
	AttrLinkRecord       AttrID = 0x0020
	AttrGUIDInfoRecord   AttrID = 0x0030
	AttrServiceRecord    AttrID = 0x0031
	AttrPKeyTableRecord  AttrID = 0x0033
	AttrPathRecord       AttrID = 0x0035
	AttrVLArbTableRecord AttrID = 0x0036
	AttrMCMemberRecord   AttrID = 0x0038
	AttrMultiPathRecord  AttrID = 0x003a
	AttrInformInfoRecord AttrID = 0x00f3
)

// ComponentMask is the set of fields of a record that a query selects by. It has a bit for each
// field in the order of the record. Reserved fields have a bit too, and some fields have two.
type ComponentMask uint64

// The bits of a ComponentMask. MaskLID is the LID at the start of all records but PathRecord,
// MCMemberRecord and ServiceRecord.
const (
	MaskLID ComponentMask = 1 << 0

	MaskNodeType ComponentMask = 1 << 4

	MaskPortInfoPortNum ComponentMask = 1 << 1
	MaskPortInfoOptions ComponentMask = 1 << 2
	MaskPortInfoCapMask ComponentMask = 1 << 7

	MaskTableBlock   ComponentMask = 1 << 1 // of LFTRecord, PKeyTableRecord and GUIDInfoRecord
	MaskPKeyPortNum  ComponentMask = 1 << 2
	MaskMFTPosition  ComponentMask = 1 << 1
	MaskMFTBlock     ComponentMask = 1 << 3
	MaskSL2VLInPort  ComponentMask = 1 << 1
	MaskSL2VLOutPort ComponentMask = 1 << 2
	MaskVLArbOutPort ComponentMask = 1 << 1
	MaskVLArbBlock   ComponentMask = 1 << 2
	MaskLinkFromPort ComponentMask = 1 << 1
	MaskLinkToPort   ComponentMask = 1 << 2
	MaskLinkToLID    ComponentMask = 1 << 3

	MaskPathServiceID  ComponentMask = 3 << 0
	MaskPathDGID       ComponentMask = 1 << 2
	MaskPathSGID       ComponentMask = 1 << 3
	MaskPathDLID       ComponentMask = 1 << 4
	MaskPathSLID       ComponentMask = 1 << 5
	MaskPathReversible ComponentMask = 1 << 11
	MaskPathNumPaths   ComponentMask = 1 << 12
	MaskPathPKey       ComponentMask = 1 << 13
	MaskPathQoSClass   ComponentMask = 1 << 14
	MaskPathSL         ComponentMask = 1 << 15
	MaskPathMTU        ComponentMask = 3 << 16 // with its selector
	MaskPathRate       ComponentMask = 3 << 18 // with its selector
	MaskPathLife       ComponentMask = 3 << 20 // with its selector

	MaskMultiPathNumPaths     ComponentMask = 1 << 6
	MaskMultiPathPKey         ComponentMask = 1 << 7
	MaskMultiPathSources      ComponentMask = 1 << 19
	MaskMultiPathDestinations ComponentMask = 1 << 20

	MaskMulticastMGID      ComponentMask = 1 << 0
	MaskMulticastPortGID   ComponentMask = 1 << 1
	MaskMulticastQKey      ComponentMask = 1 << 2
	MaskMulticastMLID      ComponentMask = 1 << 3
	MaskMulticastPKey      ComponentMask = 1 << 7
	MaskMulticastJoinState ComponentMask = 1 << 16
)

// Selector is the comparison of a record's value with the value in a query.
type Selector uint8

// The selectors.
const (
	GreaterThan Selector = 0
	LessThan    Selector = 1
	Exactly     Selector = 2
)

// NodeRecord describes a node, and one of its ports. A switch has one record, other nodes have one
// for each port.
type NodeRecord struct {
	LID         uint16          `mad:"0:16,Lid,uint"`
	NodeInfo    NodeInfo        `mad:"4"`
	Description NodeDescription `mad:"44"`
}

func (*NodeRecord) attribute() *Layout { return layoutNodeRecord() }

// PortInfoRecord holds the PortInfo of a port.
type PortInfoRecord struct {
	LID      uint16   `mad:"0:16,EndPortLid,uint"`
	PortNum  uint8    `mad:"2:8,PortNum,uint"`
	Options  uint8    `mad:"3:8,Options,hex"` // 0x80: with extended speeds
	PortInfo PortInfo `mad:"4"`
}

func (*PortInfoRecord) attribute() *Layout { return layoutPortInfoRecord() }

// SwitchInfoRecord holds the SwitchInfo of a switch.
type SwitchInfoRecord struct {
	LID        uint16     `mad:"0:16,Lid,uint"`
	SwitchInfo SwitchInfo `mad:"4"`
}

func (*SwitchInfoRecord) attribute() *Layout { return layoutSwitchInfoRecord() }

// LFTRecord holds a block of the linear forwarding table of a switch.
type LFTRecord struct {
	LID   uint16                `mad:"0:16,Lid,uint"`
	Block uint16                `mad:"2:16,Block,uint"`
	Table LinearForwardingTable `mad:"8"`
}

func (*LFTRecord) attribute() *Layout { return layoutLFTRecord() }

// MFTRecord holds a block of the multicast forwarding table of a switch.
type MFTRecord struct {
	LID      uint16                   `mad:"0:16,Lid,uint"`
	Position uint8                    `mad:"2:4,Position,uint"` // group of 16 ports
	Block    uint16                   `mad:"2.7:9,Block,uint"`
	Table    MulticastForwardingTable `mad:"8"`
}

func (*MFTRecord) attribute() *Layout { return layoutMFTRecord() }

// SL2VLTableRecord holds an SL2VLTable of a port.
type SL2VLTableRecord struct {
	LID     uint16     `mad:"0:16,Lid,uint"`
	InPort  uint8      `mad:"2:8,InPort,uint"`
	OutPort uint8      `mad:"3:8,OutPort,uint"`
	Table   SL2VLTable `mad:"8"`
}

func (*SL2VLTableRecord) attribute() *Layout { return layoutSL2VLTableRecord() }

// VLArbTableRecord holds a block of a VL arbitration table of a port.
type VLArbTableRecord struct {
	LID     uint16     `mad:"0:16,Lid,uint"`
	OutPort uint8      `mad:"2:8,OutPort,uint"`
	Block   uint8      `mad:"3:8,Block,uint"`
	Table   VLArbTable `mad:"8"`
}

func (*VLArbTableRecord) attribute() *Layout { return layoutVLArbTableRecord() }

// PKeyTableRecord holds a block of the P_Key table of a port.
type PKeyTableRecord struct {
	LID     uint16    `mad:"0:16,Lid,uint"`
	Block   uint16    `mad:"2:16,Block,uint"`
	PortNum uint8     `mad:"4:8,PortNum,uint"`
	Table   PKeyTable `mad:"8"`
}

func (*PKeyTableRecord) attribute() *Layout { return layoutPKeyTableRecord() }

// GUIDInfoRecord holds a block of the GUID table of a port.
type GUIDInfoRecord struct {
	LID      uint16   `mad:"0:16,Lid,uint"`
	Block    uint8    `mad:"2:8,BlockNum,uint"`
	GUIDInfo GUIDInfo `mad:"8"`
}

func (*GUIDInfoRecord) attribute() *Layout { return layoutGUIDInfoRecord() }

// SMInfoRecord holds the SMInfo of a port with a subnet manager.
type SMInfoRecord struct {
	LID    uint16 `mad:"0:16,Lid,uint"`
	SMInfo SMInfo `mad:"4"`
}

func (*SMInfoRecord) attribute() *Layout { return layoutSMInfoRecord() }

// LinkRecord describes a link from the view of one end.
type LinkRecord struct {
	FromLID  uint16 `mad:"0:16,FromLID,uint"`
	FromPort uint8  `mad:"2:8,FromPort,uint"`
	ToPort   uint8  `mad:"3:8,ToPort,uint"`
	ToLID    uint16 `mad:"4:16,ToLID,uint"`
}

func (*LinkRecord) attribute() *Layout { return layoutLinkRecord() }

// InformInfoRecord describes a subscription to reports.
type InformInfoRecord struct {
	SubscriberGID verbs.GID  `mad:"0:128,SubscriberGID,array"`
	Enum          uint16     `mad:"16:16,Enum,uint"`
	InformInfo    InformInfo `mad:"24"`
}

func (*InformInfoRecord) attribute() *Layout { return layoutInformInfoRecord() }

// PathRecord describes a path between two ports.
type PathRecord struct {
	ServiceID      uint64    `mad:"0:64,ServiceID,hex"`
	DGID           verbs.GID `mad:"8:128,PathRecDGid,array"`
	SGID           verbs.GID `mad:"24:128,PathRecSGid,array"`
	DLID           uint16    `mad:"40:16,PathRecDLid,uint"`
	SLID           uint16    `mad:"42:16,PathRecSLid,uint"`
	RawTraffic     bool      `mad:"44:1,RawTraffic,uint"`
	FlowLabel      uint32    `mad:"44.4:20,FlowLabel,hex"`
	HopLimit       uint8     `mad:"47:8,HopLimit,uint"`
	TClass         uint8     `mad:"48:8,TClass,hex"`
	Reversible     bool      `mad:"49:1,Reversible,uint"`
	NumPaths       uint8     `mad:"49.1:7,PathRecNumPath,uint"`
	PKey           uint16    `mad:"50:16,PKey,hex"`
	QoSClass       uint16    `mad:"52:12,QoSClass,hex"`
	SL             uint8     `mad:"53.4:4,PathRecSL,uint"`
	MTUSelector    Selector  `mad:"54:2,MtuSelector,uint"`
	MTU            verbs.MTU `mad:"54.2:6,Mtu,uint"`
	RateSelector   Selector  `mad:"55:2,RateSelector,uint"`
	Rate           uint8     `mad:"55.2:6,Rate,uint"`
	LifeSelector   Selector  `mad:"56:2,PacketLifeTimeSelector,uint"`
	PacketLifeTime uint8     `mad:"56.2:6,PacketLifeTime,uint"` // 4.096 us * 2^PacketLifeTime
	Preference     uint8     `mad:"57:8,Preference,uint"`
}

func (*PathRecord) attribute() *Layout { return layoutPathRecord() }

// MaxMultiPathGIDs is the number of GIDs in a MultiPathRecord.
const MaxMultiPathGIDs = 11

// MultiPathRecord asks for the paths from each of some ports to each of some others. The response to
// GetMulti holds PathRecords.
type MultiPathRecord struct {
	RawTraffic     bool      `mad:"0:1,RawTraffic,uint"`
	FlowLabel      uint32    `mad:"0.4:20,FlowLabel,hex"`
	HopLimit       uint8     `mad:"3:8,HopLimit,uint"`
	TClass         uint8     `mad:"4:8,TClass,hex"`
	Reversible     bool      `mad:"5:1,Reversible,uint"`
	NumPaths       uint8     `mad:"5.1:7,MultiPathNumPath,uint"` // at most, between two ports
	PKey           uint16    `mad:"6:16,PKey,hex"`
	QoSClass       uint16    `mad:"8:12,QoSClass,hex"`
	SL             uint8     `mad:"9.4:4,SL,uint"`
	MTUSelector    Selector  `mad:"10:2,MtuSelector,uint"`
	MTU            verbs.MTU `mad:"10.2:6,Mtu,uint"`
	RateSelector   Selector  `mad:"11:2,RateSelector,uint"`
	Rate           uint8     `mad:"11.2:6,Rate,uint"`
	LifeSelector   Selector  `mad:"12:2,PacketLifeTimeSelector,uint"`
	PacketLifeTime uint8     `mad:"12.2:6,PacketLifeTime,uint"` // 4.096 us * 2^PacketLifeTime
	ServiceIDHigh  uint8     `mad:"13:8,ServiceID8msb,hex"`     // the first byte of the service ID
	Independence   uint8     `mad:"14:2,IndependenceSelector,uint"`
	Sources        uint8     `mad:"15:8,MultiPathNumSrc,uint"`  // number of GIDs, the first ones
	Destinations   uint8     `mad:"16:8,MultiPathNumDest,uint"` // number of GIDs, those after the sources
	ServiceIDLow   uint64    `mad:"17:56,ServiceID56lsb,hex"`   // the other bytes of the service ID

	GIDs [MaxMultiPathGIDs]MultiPathGID `mad:"24:128"`
}

// MultiPathGID is a source or a destination of a MultiPathRecord.
type MultiPathGID struct {
	GID verbs.GID `mad:"0:128,MultiPathGid%d,array"`
}

func (*MultiPathRecord) attribute() *Layout { return layoutMultiPathRecord() }

// MCMemberRecord describes the membership of a port in a multicast group.
type MCMemberRecord struct {
	MGID           verbs.GID `mad:"0:128,McastMemMGid,array"`
	PortGID        verbs.GID `mad:"16:128,McastMemPortGid,array"`
	QKey           uint32    `mad:"32:32,McastMemQkey,hex"`
	MLID           uint16    `mad:"36:16,McastMemMLid,hex"`
	MTUSelector    Selector  `mad:"38:2,MtuSelector,uint"`
	MTU            verbs.MTU `mad:"38.2:6,McastMemMTU,uint"`
	TClass         uint8     `mad:"39:8,McastMemTClass,uint"`
	PKey           uint16    `mad:"40:16,McastMemPkey,hex"`
	RateSelector   Selector  `mad:"42:2,RateSelector,uint"`
	Rate           uint8     `mad:"42.2:6,McastMemRate,uint"`
	LifeSelector   Selector  `mad:"43:2,PacketLifeTimeSelector,uint"`
	PacketLifeTime uint8     `mad:"43.2:6,PacketLifeTime,uint"`
	SL             uint8     `mad:"44:4,McastMemSL,uint"`
	FlowLabel      uint32    `mad:"44.4:20,McastMemFlowLbl,hex"`
	HopLimit       uint8     `mad:"47:8,HopLimit,uint"`
	Scope          uint8     `mad:"48:4,Scope,uint"`
	JoinState      uint8     `mad:"48.4:4,McastMemJoinState,uint"` // 1: full member, 2: non-member, 4: send only
	ProxyJoin      bool      `mad:"49:1,McastMemProxyJoin,uint"`
}

func (*MCMemberRecord) attribute() *Layout { return layoutMCMemberRecord() }

// ServiceRecord describes a service that a port offers.
type ServiceRecord struct {
	ID     uint64    `mad:"0:64,ServRecID,hex"`
	GID    verbs.GID `mad:"8:128,ServRecGid,array"`
	PKey   uint16    `mad:"24:16,ServRecPkey,hex"`
	Lease  uint32    `mad:"28:32,ServRecLease,hex"` // seconds; 0xffffffff: for ever
	Key    [16]byte  `mad:"32:128,ServRecKey,array"`
	Name   string    `mad:"48:512,ServRecName,string"`
	Data8  [16]uint8 `mad:"112:8,ServRecData8_%d,uint"`
	Data16 [8]uint16 `mad:"128:16,ServRecData16_%d,uint"`
	Data32 [4]uint32 `mad:"144:32,ServRecData32_%d,uint"`
	Data64 [2]uint64 `mad:"160:64,ServRecData64_%d,uint"`
}

func (*ServiceRecord) attribute() *Layout { return layoutServiceRecord() }

// The layouts of the attributes in this file.
var (
	layoutNodeRecord       = layoutOf[NodeRecord](ClassSA, AttrNodeRecord, 112)
	layoutPortInfoRecord   = layoutOf[PortInfoRecord](ClassSA, AttrPortInfoRecord, 72)
	layoutSwitchInfoRecord = layoutOf[SwitchInfoRecord](ClassSA, AttrSwitchInfoRecord, 24)
	layoutLFTRecord        = layoutOf[LFTRecord](ClassSA, AttrLFTRecord, 72)
	layoutMFTRecord        = layoutOf[MFTRecord](ClassSA, AttrMFTRecord, 72)
	layoutSL2VLTableRecord = layoutOf[SL2VLTableRecord](ClassSA, AttrSL2VLTableRecord, 16)
	layoutVLArbTableRecord = layoutOf[VLArbTableRecord](ClassSA, AttrVLArbTableRecord, 72)
	layoutPKeyTableRecord  = layoutOf[PKeyTableRecord](ClassSA, AttrPKeyTableRecord, 72)
	layoutGUIDInfoRecord   = layoutOf[GUIDInfoRecord](ClassSA, AttrGUIDInfoRecord, 72)
	layoutSMInfoRecord     = layoutOf[SMInfoRecord](ClassSA, AttrSMInfoRecord, 32)
	layoutLinkRecord       = layoutOf[LinkRecord](ClassSA, AttrLinkRecord, 8)
	layoutInformInfoRecord = layoutOf[InformInfoRecord](ClassSA, AttrInformInfoRecord, 64)
	layoutPathRecord       = layoutOf[PathRecord](ClassSA, AttrPathRecord, 64)
	layoutMultiPathRecord  = layoutOf[MultiPathRecord](ClassSA, AttrMultiPathRecord, 200)
	layoutMCMemberRecord   = layoutOf[MCMemberRecord](ClassSA, AttrMCMemberRecord, 56)
	layoutServiceRecord    = layoutOf[ServiceRecord](ClassSA, AttrServiceRecord, 176)
)
