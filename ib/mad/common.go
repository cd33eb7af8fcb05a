package mad

import "github.com/goverbs/goverbs/verbs"

// Attributes of all classes.
const (
	AttrClassPortInfo AttrID = 0x0001
	AttrNotice        AttrID = 0x0002
	AttrInformInfo    AttrID = 0x0003
)

// Numbers of generic traps.
const (
	TrapLinkState    uint16 = 128
	TrapLocalChanges uint16 = 144
	TrapBadMKey      uint16 = 256
)

// ClassPortInfo describes the agent of a class at a port. It may name another agent, to which
// requests are redirected.
type ClassPortInfo struct {
	BaseVersion       uint8     `mad:"0:8,BaseVersion,uint"`
	ClassVersion      uint8     `mad:"1:8,ClassVersion,uint"`
	CapMask           uint16    `mad:"2:16,CapabilityMask,hex"`
	CapMask2          uint32    `mad:"4:27,CapabilityMask2,hex"`
	RespTime          uint8     `mad:"7.3:5,RespTimeVal,uint"` // 4.096 us * 2^RespTime
	RedirectGID       verbs.GID `mad:"8:128,RedirectGID,array"`
	RedirectTC        uint8     `mad:"24:8,RedirectTC,hex"`
	RedirectSL        uint8     `mad:"25:4,RedirectSL,uint"`
	RedirectFlowLabel uint32    `mad:"25.4:20,RedirectFL,hex"`
	RedirectLID       uint16    `mad:"28:16,RedirectLID,uint"`
	RedirectPKey      uint16    `mad:"30:16,RedirectPKey,hex"`
	RedirectQP        uint32    `mad:"33:24,RedirectQP,hex"`
	RedirectQKey      uint32    `mad:"36:32,RedirectQKey,hex"`
	TrapGID           verbs.GID `mad:"40:128,TrapGID,array"`
	TrapTC            uint8     `mad:"56:8,TrapTC,hex"`
	TrapSL            uint8     `mad:"57:4,TrapSL,uint"`
	TrapFlowLabel     uint32    `mad:"57.4:20,TrapFL,hex"`
	TrapLID           uint16    `mad:"60:16,TrapLID,uint"`
	TrapPKey          uint16    `mad:"62:16,TrapPKey,hex"`
	TrapHL            uint8     `mad:"64:8,TrapHL,uint"`
	TrapQP            uint32    `mad:"65:24,TrapQP,hex"`
	TrapQKey          uint32    `mad:"68:32,TrapQKey,hex"`
}

func (*ClassPortInfo) attribute() *Layout { return layoutClassPortInfo() }

// Notice describes an event. It is the attribute of traps and reports.
type Notice struct {
	Generic      bool      `mad:"0:1,NoticeIsGeneric,uint"`
	Type         uint8     `mad:"0.1:7,NoticeType,uint"`
	ProducerType uint32    `mad:"1:24,NoticeProducerType,uint"` // a NodeType, in generic notices
	TrapNumber   uint16    `mad:"4:16,NoticeTrapNumber,uint"`
	IssuerLID    uint16    `mad:"6:16,NoticeIssuerLID,uint"`
	Toggle       bool      `mad:"8:1,NoticeToggle,uint"`
	Count        uint16    `mad:"8.1:15,NoticeCount,uint"`
	Details      [54]byte  `mad:"10:432,NoticeDataDetails,array"`
	IssuerGID    verbs.GID `mad:"64:128,NoticeIssuerGID,array"` // only in reports of class SA
}

func (*Notice) attribute() *Layout { return layoutNotice() }

// InformInfo subscribes to reports of events.
type InformInfo struct {
	GID           verbs.GID `mad:"0:128,InformGID,array"`
	LIDRangeBegin uint16    `mad:"16:16,InformLIDRangeBegin,uint"`
	LIDRangeEnd   uint16    `mad:"18:16,InformLIDRangeEnd,uint"`
	Generic       uint8     `mad:"22:8,InformIsGeneric,uint"`
	Subscribe     uint8     `mad:"23:8,InformSubscribe,uint"` // 0: ends the subscription
	Type          uint16    `mad:"24:16,InformType,uint"`
	TrapNumber    uint16    `mad:"26:16,InformTrapNumber,uint"`
	QPN           uint32    `mad:"28:24,InformQPN,uint"`
	RespTime      uint8     `mad:"31.3:5,InformRespTimeVal,uint"`
	ProducerType  uint32    `mad:"33:24,InformProducerType,uint"`
}

func (*InformInfo) attribute() *Layout { return layoutInformInfo() }

// The layouts of the attributes in this file.
var (
	layoutClassPortInfo = layoutOf[ClassPortInfo](0, AttrClassPortInfo, 72)
	layoutNotice        = layoutOf[Notice](0, AttrNotice, 64)
	layoutInformInfo    = layoutOf[InformInfo](0, AttrInformInfo, 36)
)
