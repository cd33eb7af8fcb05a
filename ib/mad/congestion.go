package mad

// Attributes of congestion control.
const (
	AttrCongestionInfo              AttrID = 0x0011
	AttrCongestionKeyInfo           AttrID = 0x0012
	AttrCongestionLog               AttrID = 0x0013
	AttrSwitchCongestionSetting     AttrID = 0x0014 // of switches
	AttrSwitchPortCongestionSetting AttrID = 0x0015 // of switches; the modifier is a block of 48 ports
	AttrCACongestionSetting         AttrID = 0x0016 // of channel adapters
	AttrCongestionControlTable      AttrID = 0x0017 // of channel adapters; the modifier is a block of 64 entries
	AttrCongestionTimestamp         AttrID = 0x0018
)

// CongestionInfo describes the agent of congestion control.
type CongestionInfo struct {
	Info            uint16 `mad:"0:16,CongestionInfo,hex"`  // bit 0: the switch supports credit starvation
	ControlTableCap uint8  `mad:"2:8,ControlTableCap,uint"` // blocks of 64 entries in the table of an adapter
}

func (*CongestionInfo) attribute() *Layout { return layoutCongestionInfo() }

// CongestionKeyInfo holds the CC_Key, which protects the settings of congestion control.
type CongestionKeyInfo struct {
	Key         uint64 `mad:"0:64,CC_Key,hex"`
	ProtectBit  bool   `mad:"8:1,CC_KeyProtectBit,uint"`
	LeasePeriod uint16 `mad:"10:16,CC_KeyLeasePeriod,uint"` // seconds; 0: for ever
	Violations  uint16 `mad:"12:16,CC_KeyViolations,uint"`
}

func (*CongestionKeyInfo) attribute() *Layout { return layoutCongestionKeyInfo() }

// The values of CongestionLog.Type.
const (
	CongestionLogOfSwitch uint8 = 1
	CongestionLogOfCA     uint8 = 2
)

// CongestionLog is the beginning of a CongestionLogSwitch or a CongestionLogCA, which its type
// determines.
type CongestionLog struct {
	Type  uint8 `mad:"0:8,LogType,uint"`
	Flags uint8 `mad:"1:8,CongestionFlags,hex"`
}

func (*CongestionLog) attribute() *Layout { return layoutCongestionLog() }

// CongestionEventSwitch is an event of a switch: it marked a packet of a flow.
type CongestionEventSwitch struct {
	SLID      uint16 `mad:"0:16,SLID%d,uint"`
	DLID      uint16 `mad:"2:16,DLID%d,uint"`
	SL        uint8  `mad:"4:4,SL%d,uint"`
	Timestamp uint32 `mad:"8:32,Timestamp%d,uint"` // in units of 1.024 us
}

// CongestionLogSwitch is the CongestionLog of a switch.
type CongestionLogSwitch struct {
	Type    uint8                     `mad:"0:8,LogType,uint"`
	Flags   uint8                     `mad:"1:8,CongestionFlags,hex"`
	Events  uint16                    `mad:"2:16,LogEventsCounter,uint"`
	Now     uint32                    `mad:"4:32,CurrentTimeStamp,uint"` // in units of 1.024 us
	PortMap [32]byte                  `mad:"8:256,PortMap,array"`        // ports that have marked packets
	Log     [15]CongestionEventSwitch `mad:"40:96"`
}

func (*CongestionLogSwitch) attribute() *Layout { return layoutCongestionLogSwitch() }

// CongestionEventCA is an event of a channel adapter: a congestion notification for a flow.
type CongestionEventCA struct {
	LocalQP     uint32 `mad:"0:24,Local_QP_CN_Entry%d,uint"`
	SL          uint8  `mad:"3:4,SL_CN_Entry%d,uint"`
	ServiceType uint8  `mad:"3.4:4,Service_Type_CN_Entry%d,hex"`
	RemoteQP    uint32 `mad:"4:24,Remote_QP_Number_CN_Entry%d,uint"`
	LocalLID    uint16 `mad:"8:16,Local_LID_CN%d,uint"`
	RemoteLID   uint16 `mad:"10:16,Remote_LID_CN_Entry%d,uint"`
	Timestamp   uint32 `mad:"12:32,Timestamp_CN_Entry%d,uint"` // in units of 1.024 us
}

// CongestionLogCA is the CongestionLog of a channel adapter. The events are aligned as C's libibmad
// expects them, which differs from annex A10 of the specification.
type CongestionLogCA struct {
	Type     uint8                 `mad:"0:8,LogType,uint"`
	Flags    uint8                 `mad:"1:8,CongestionFlags,hex"`
	Events   uint16                `mad:"2:16,ThresholdEventCounter,uint"`
	EventMap uint16                `mad:"4:16,ThresholdCongestionEventMap,hex"` // service levels that reached the threshold
	Now      uint32                `mad:"8:32,CurrentTimeStamp,uint"`           // in units of 1.024 us
	Log      [13]CongestionEventCA `mad:"12:128"`
}

func (*CongestionLogCA) attribute() *Layout { return layoutCongestionLogCA() }

// SwitchCongestionSetting holds the settings of all ports of a switch. The bits of the masks are ports.
type SwitchCongestionSetting struct {
	ControlMap    uint32   `mad:"0:32,Control_Map,hex"` // which of the other fields are valid
	VictimMask    [32]byte `mad:"4:256,Victim_Mask,array"`
	CreditMask    [32]byte `mad:"36:256,Credit_Mask,array"`
	Threshold     uint8    `mad:"68:4,Threshold,hex"`    // 0: no marking; 15: the earliest
	PacketSize    uint8    `mad:"69:8,Packet_Size,uint"` // shorter packets are not marked; in units of 64 bytes
	CSThreshold   uint8    `mad:"70:4,CS_Threshold,hex"`
	CSReturnDelay uint16   `mad:"72:16,CS_ReturnDelay,hex"`
	MarkingRate   uint16   `mad:"74:16,Marking_Rate,uint"` // mean number of packets between two marks
}

func (*SwitchCongestionSetting) attribute() *Layout { return layoutSwitchCongestionSetting() }

// SwitchPortCongestion holds the settings of a port of a switch.
type SwitchPortCongestion struct {
	Valid       bool   `mad:"0:1,Valid%d,uint"`          // in place of the settings of the switch
	ControlType bool   `mad:"0.1:1,Control_Type%d,uint"` // false: congestion control; true: credit starvation
	Threshold   uint8  `mad:"0.4:4,Threshold%d,hex"`
	PacketSize  uint8  `mad:"1:8,Packet_Size%d,uint"` // in units of 64 bytes
	MarkingRate uint16 `mad:"2:16,Cong_Parm_Marking_Rate%d,uint"`
}

// SwitchPortCongestionSetting holds the settings of a block of 48 ports.
type SwitchPortCongestionSetting struct {
	Ports [48]SwitchPortCongestion `mad:"0:32"`
}

func (*SwitchPortCongestionSetting) attribute() *Layout { return layoutSwitchPortCongestionSetting() }

// CACongestionEntry holds the settings of a service level at a port of a channel adapter.
type CACongestionEntry struct {
	Timer            uint16 `mad:"0:16,CCTI_Timer%d,uint"`       // between two decrements of the index; in units of 1.024 us
	Increase         uint8  `mad:"2:8,CCTI_Increase%d,uint"`     // of the index, by a notification
	TriggerThreshold uint8  `mad:"3:8,Trigger_Threshold%d,uint"` // index from which events are logged
	Min              uint8  `mad:"4:8,CCTI_Min%d,uint"`
}

// CACongestionSetting holds the settings of a port of a channel adapter.
type CACongestionSetting struct {
	PortControl uint16                `mad:"0:16,Port_Control,hex"` // bit 0: for service levels, not queue pairs
	ControlMap  uint16                `mad:"2:16,Control_Map,hex"`  // service levels whose entries are valid
	Entries     [16]CACongestionEntry `mad:"4:64"`                  // by service level
}

func (*CACongestionSetting) attribute() *Layout { return layoutCACongestionSetting() }

// CongestionControlEntry is a delay between packets: Multiplier times the time of a packet, shifted
// right by Shift bits.
type CongestionControlEntry struct {
	Shift      uint8  `mad:"0:2,CCT_Shift%d,uint"`
	Multiplier uint16 `mad:"0.2:14,CCT_Multiplier%d,uint"`
}

// CongestionControlTable is a block of 64 entries of the table of delays.
type CongestionControlTable struct {
	Limit   uint16                     `mad:"0:16,CCTI_Limit,uint"` // the highest index
	Entries [64]CongestionControlEntry `mad:"4:16"`
}

func (*CongestionControlTable) attribute() *Layout { return layoutCongestionControlTable() }

// CongestionTimestamp is the clock of the logs.
type CongestionTimestamp struct {
	Timestamp uint32 `mad:"0:32,Timestamp,uint"` // in units of 1.024 us
}

func (*CongestionTimestamp) attribute() *Layout { return layoutCongestionTimestamp() }

// The layouts of the attributes in this file. That of CongestionLog precedes the more specific ones.
var (
	layoutCongestionInfo              = layoutOf[CongestionInfo](ClassCC, AttrCongestionInfo, 4)
	layoutCongestionKeyInfo           = layoutOf[CongestionKeyInfo](ClassCC, AttrCongestionKeyInfo, 14)
	layoutCongestionLog               = layoutOf[CongestionLog](ClassCC, AttrCongestionLog, 2)
	layoutCongestionLogSwitch         = layoutOf[CongestionLogSwitch](ClassCC, AttrCongestionLog, 220)
	layoutCongestionLogCA             = layoutOf[CongestionLogCA](ClassCC, AttrCongestionLog, 220)
	layoutSwitchCongestionSetting     = layoutOf[SwitchCongestionSetting](ClassCC, AttrSwitchCongestionSetting, 76)
	layoutSwitchPortCongestionSetting = layoutOf[SwitchPortCongestionSetting](ClassCC, AttrSwitchPortCongestionSetting, 192)
	layoutCACongestionSetting         = layoutOf[CACongestionSetting](ClassCC, AttrCACongestionSetting, 132)
	layoutCongestionControlTable      = layoutOf[CongestionControlTable](ClassCC, AttrCongestionControlTable, 132)
	layoutCongestionTimestamp         = layoutOf[CongestionTimestamp](ClassCC, AttrCongestionTimestamp, 4)
)
