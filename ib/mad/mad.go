package mad

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goverbs/goverbs/verbs"
)

// Size is the length of a MAD in bytes.
const Size = 256

// MAD is a management datagram as it is sent: a header of 24 bytes that is common to all classes,
// the headers of its class, and an attribute. Its methods read and write the headers. They panic
// if the MAD has less than Size bytes. Parse checks the length.
//
// C: struct ib_mad, struct ib_smp
type MAD []byte

// New returns a MAD with a common header. All bytes after the header are zero.
func New(class Class, method Method, attr AttrID, modifier uint32) MAD {
	m := make(MAD, Size)
	m[0] = 1
	m[1] = byte(class)
	m[2] = class.Version()
	m[3] = byte(method)
	binary.BigEndian.PutUint16(m[16:], uint16(attr))
	binary.BigEndian.PutUint32(m[20:], modifier)
	return m
}

// Parse returns the bytes of a received packet as a MAD. It fails if there are less than Size bytes,
// or if the header has an unknown version.
func Parse(b []byte) (MAD, error) {
	switch {
	case len(b) < Size:
		return nil, failed("parse", "MAD", "%d bytes, not %d", len(b), Size)
	case b[0] != 1:
		return nil, failed("parse", "MAD", "base version %d, not 1", b[0])
	}
	return b, nil
}

// failed returns the error of parsing, decoding or encoding an object.
func failed(op, object, format string, args ...any) error {
	return &verbs.Error{Op: op, Object: object, Err: fmt.Errorf(format, args...)}
}

// Class returns the management class.
func (m MAD) Class() Class { return Class(m[1]) }

// ClassVersion returns the version of the class.
func (m MAD) ClassVersion() uint8 { return m[2] }

// Method returns the method.
func (m MAD) Method() Method { return Method(m[3]) }

// SetMethod sets the method.
func (m MAD) SetMethod(v Method) { m[3] = byte(v) }

// IsResponse reports whether the MAD answers a request.
func (m MAD) IsResponse() bool { return m.Method().IsResponse() }

// Status returns the status of a response, without the direction bit of a directed route.
func (m MAD) Status() Status {
	s := binary.BigEndian.Uint16(m[4:])
	if m.Class() == ClassDirected {
		s &^= directionBit
	}
	return Status(s)
}

// SetStatus sets the status of a response. It doesn't change the direction bit of a directed route.
func (m MAD) SetStatus(s Status) {
	v := uint16(s)
	if m.Class() == ClassDirected {
		v = v&^directionBit | binary.BigEndian.Uint16(m[4:])&directionBit
	}
	binary.BigEndian.PutUint16(m[4:], v)
}

const directionBit = 0x8000

// TID returns the transaction ID. A response has the transaction ID of its request.
func (m MAD) TID() uint64 { return binary.BigEndian.Uint64(m[8:]) }

// SetTID sets the transaction ID.
func (m MAD) SetTID(v uint64) { binary.BigEndian.PutUint64(m[8:], v) }

// AttrID returns the number of the attribute.
func (m MAD) AttrID() AttrID { return AttrID(binary.BigEndian.Uint16(m[16:])) }

// SetAttrID sets the number of the attribute.
func (m MAD) SetAttrID(v AttrID) { binary.BigEndian.PutUint16(m[16:], uint16(v)) }

// Modifier returns the attribute modifier, such as a port number.
func (m MAD) Modifier() uint32 { return binary.BigEndian.Uint32(m[20:]) }

// Data returns the bytes of the attribute, which follow the headers of the MAD's class. For an RMPP
// message they are the payload of all segments.
func (m MAD) Data() []byte {
	switch m.Class() {
	case ClassLID, ClassDirected:
		return m[64:128]
	case ClassCC:
		if m.AttrID() == AttrCongestionLog {
			return m[32:]
		}
	}
	return m[m.Class().dataOffset():]
}

// MKey returns the M_Key of an SMP. The B_Key and the CC_Key of their classes are at the same offset.
func (m MAD) MKey() uint64 { return binary.BigEndian.Uint64(m[24:]) }

// SetMKey sets the M_Key.
func (m MAD) SetMKey(v uint64) { binary.BigEndian.PutUint64(m[24:], v) }

// HopPointer returns the index of the hop that a MAD with a directed route has reached.
func (m MAD) HopPointer() uint8 { return m[6] }

// SetHopPointer sets the index of the hop.
func (m MAD) SetHopPointer(v uint8) { m[6] = v }

// HopCount returns the number of hops of a directed route.
func (m MAD) HopCount() uint8 { return m[7] }

// SetHopCount sets the number of hops.
func (m MAD) SetHopCount(v uint8) { m[7] = v }

// DrSLID returns the source of the part of the route before the hops. It is PermissiveLID unless
// that part is routed by LID.
func (m MAD) DrSLID() uint16 { return binary.BigEndian.Uint16(m[32:]) }

// SetDrSLID sets the source of the part of the route before the hops.
func (m MAD) SetDrSLID(v uint16) { binary.BigEndian.PutUint16(m[32:], v) }

// SetDrDLID sets the destination of the part of the route after the hops. It is PermissiveLID
// unless that part is routed by LID.
func (m MAD) SetDrDLID(v uint16) { binary.BigEndian.PutUint16(m[34:], v) }

// Returning reports whether a MAD with a directed route is on its way back.
func (m MAD) Returning() bool { return m[4]&0x80 != 0 }

// SetReturning sets the direction of a MAD with a directed route.
func (m MAD) SetReturning(back bool) {
	m[4] &^= 0x80
	if back {
		m[4] |= 0x80
	}
}

// InitialPath returns the 64 bytes of the MAD that hold the ports of a directed route. Byte i is the
// output port of hop i. Byte 0 is unused.
func (m MAD) InitialPath() []byte { return m[128:192] }

// ReturnPath returns the 64 bytes of the MAD that hold the input ports of a directed route, with the
// indexes of InitialPath.
func (m MAD) ReturnPath() []byte { return m[192:256] }

// The RMPP header of class SA and vendor range 2. Transports implement RMPP. A program sees the
// header of a message's first segment.

// RMPPVersion returns the version of RMPP, 0 if the MAD is no part of a message.
func (m MAD) RMPPVersion() uint8 { return m[24] }

// SetRMPPVersion sets the version of RMPP, which is 1.
func (m MAD) SetRMPPVersion(v uint8) { m[24] = v }

// SetRMPPType sets the type of the segment.
func (m MAD) SetRMPPType(v RMPPType) { m[25] = byte(v) }

// RMPPFlags returns the flags of the segment.
func (m MAD) RMPPFlags() RMPPFlags { return RMPPFlags(m[26] & 7) }

// SetRMPPFlags sets the flags of the segment.
func (m MAD) SetRMPPFlags(v RMPPFlags) { m[26] = m[26]&^7 | byte(v)&7 }

// RMPPSegment returns the number of the segment, from 1.
func (m MAD) RMPPSegment() uint32 { return binary.BigEndian.Uint32(m[28:]) }

// SetRMPPSegment sets the number of the segment.
func (m MAD) SetRMPPSegment(v uint32) { binary.BigEndian.PutUint32(m[28:], v) }

// RMPPLength returns the PayloadLength of a DATA segment, or the NewWindowLast of an ACK. In the
// first segment of a message the payload length is the length of the whole message with the class
// header of each segment. In the last segment it is the length of that segment.
func (m MAD) RMPPLength() uint32 { return binary.BigEndian.Uint32(m[32:]) }

// SetRMPPLength sets the length that RMPPLength returns.
func (m MAD) SetRMPPLength(v uint32) { binary.BigEndian.PutUint32(m[32:], v) }

// RMPPType is the type of a segment.
type RMPPType uint8

// RMPPData is the type of a segment with data. Transports handle those of other types.
const RMPPData RMPPType = 1

// RMPPFlags are the flags of a segment.
type RMPPFlags uint8

// The flags of a segment.
const (
	RMPPActive RMPPFlags = 1 // the MAD is a segment
	RMPPFirst  RMPPFlags = 2
	RMPPLast   RMPPFlags = 4
)

// SMKey returns the SM_Key of a MAD of class SA.
func (m MAD) SMKey() uint64 { return binary.BigEndian.Uint64(m[36:]) }

// SetSMKey sets the SM_Key.
func (m MAD) SetSMKey(v uint64) { binary.BigEndian.PutUint64(m[36:], v) }

// AttrOffset returns the distance between records in a response of class SA, in units of 8 bytes.
func (m MAD) AttrOffset() uint16 { return binary.BigEndian.Uint16(m[44:]) }

// SetAttrOffset sets the distance between records.
func (m MAD) SetAttrOffset(v uint16) { binary.BigEndian.PutUint16(m[44:], v) }

// ComponentMask returns the mask of the record's fields that a query of class SA selects by.
func (m MAD) ComponentMask() ComponentMask { return ComponentMask(binary.BigEndian.Uint64(m[48:])) }

// SetComponentMask sets the mask of the fields that a query selects by.
func (m MAD) SetComponentMask(v ComponentMask) { binary.BigEndian.PutUint64(m[48:], uint64(v)) }

// OUI returns the organization identifier of a MAD of vendor range 2.
func (m MAD) OUI() uint32 { return uint32(m[37])<<16 | uint32(m[38])<<8 | uint32(m[39]) }

// SetOUI sets the organization identifier of a MAD of vendor range 2.
func (m MAD) SetOUI(v uint32) { m[37], m[38], m[39] = byte(v>>16), byte(v>>8), byte(v) }

// Class is a management class.
type Class uint8

// The management classes.
const (
	ClassLID      Class = 0x01 // subnet management, routed by LID
	ClassSA       Class = 0x03 // subnet administration
	ClassPerf     Class = 0x04 // performance management
	classBM       Class = 0x05 // baseboard management
	classDevMgt   Class = 0x06
	classCM       Class = 0x07 // connection management
	classSNMP     Class = 0x08
	classDevAdm   Class = 0x10
	classBootMgt  Class = 0x11
	classBIS      Class = 0x12
	ClassCC       Class = 0x21 // congestion control
	ClassPing     Class = 0x32 // OpenIB's ping, with OUI OUIOpenIB
	ClassSysStat  Class = 0x33 // OpenIB's system status, with OUI OUIOpenIB
	ClassDirected Class = 0x81 // subnet management, by a directed route
)

// OUIOpenIB is the organization identifier of ClassPing and ClassSysStat.
const OUIOpenIB uint32 = 0x001405

var classNames = map[Class]string{
	ClassLID: "SMP", ClassDirected: "SMP by directed route", ClassSA: "SA", ClassPerf: "PerfMgt", classBM: "BM", classDevMgt: "DevMgt", classCM: "CM",
	classSNMP: "SNMP", classDevAdm: "DevAdm", classBootMgt: "BootMgt", classBIS: "BIS", ClassCC: "CC", ClassPing: "ping", ClassSysStat: "sysstat",
}

func (c Class) String() string {
	if s := classNames[c]; s != "" {
		return s
	}
	return fmt.Sprintf("class 0x%02x", uint8(c))
}

// Version returns the current version of the class.
func (c Class) Version() uint8 {
	switch c {
	case ClassSA, ClassCC:
		return 2
	}
	return 1
}

// Vendor2 reports whether the class is in vendor range 2. MADs of that range have an OUI and may use RMPP.
func (c Class) Vendor2() bool { return c >= 0x30 && c <= 0x4f }

// SubnetManagement reports whether MADs of the class go to QP 0.
func (c Class) SubnetManagement() bool { return c == ClassLID || c == ClassDirected }

func (c Class) dataOffset() int {
	switch {
	case c == ClassSA:
		return 56
	case c >= 0x09 && c <= 0x0f:
		return 24
	case c.Vendor2():
		return 40
	}
	return 64
}

// AttrID identifies an attribute within a management class.
type AttrID uint16

// AttrName returns the name of an attribute of a class, such as "NodeInfo". If this package doesn't
// know the attribute, the name is its number, as in "attribute 0x0015".
func AttrName(class Class, id AttrID) string {
	if l := FindLayout(class, id); l != nil {
		return l.Name
	}
	return fmt.Sprintf("attribute 0x%04x", uint16(id))
}

// Method is the operation that a MAD requests or answers.
type Method uint8

const methodResponse Method = 0x80

// The methods.
const (
	Get           Method = 0x01
	Set           Method = 0x02
	Send          Method = 0x03
	Trap          Method = 0x05
	Report        Method = 0x06
	TrapRepress   Method = 0x07
	GetTable      Method = 0x12
	getTraceTable Method = 0x13
	GetMulti      Method = 0x14
	Delete        Method = 0x15

	GetResp           = Get | methodResponse // also the response to Set
	reportResp        = Report | methodResponse
	GetTableResp      = GetTable | methodResponse
	getTraceTableResp = getTraceTable | methodResponse
	getMultiResp      = GetMulti | methodResponse
	deleteResp        = Delete | methodResponse
)

// IsResponse reports whether the method is that of a response. TrapRepress is the response to a trap.
func (m Method) IsResponse() bool { return m&methodResponse != 0 || m == TrapRepress }

// Response returns the method of the response to a request.
func (m Method) Response() Method {
	switch m {
	case Set:
		return GetResp
	case Trap:
		return TrapRepress
	}
	return m | methodResponse
}

var methodNames = map[Method]string{
	Get: "Get", Set: "Set", Send: "Send", Trap: "Trap", Report: "Report", TrapRepress: "TrapRepress", GetTable: "GetTable",
	getTraceTable: "GetTraceTable", GetMulti: "GetMulti", Delete: "Delete", GetResp: "GetResp", reportResp: "ReportResp",
	GetTableResp: "GetTableResp", getTraceTableResp: "GetTraceTableResp", getMultiResp: "GetMultiResp", deleteResp: "DeleteResp",
}

func (m Method) String() string {
	if s := methodNames[m]; s != "" {
		return s
	}
	return fmt.Sprintf("method 0x%02x", uint8(m))
}

// Status is the status of a response.
type Status uint16

// The statuses of all classes. StatusBusy and StatusRedirect are bits; the others are values of bits
// 2 to 4.
const (
	StatusOK            Status = 0
	StatusBusy          Status = 0x01
	StatusRedirect      Status = 0x02
	StatusBadVersion    Status = 0x04 // class or version not supported
	StatusBadMethod     Status = 0x08 // method not supported
	StatusBadMethodAttr Status = 0x0c // method not supported for the attribute
	StatusInvalid       Status = 0x1c // invalid value in the attribute or its modifier
)

// The statuses of class SA.
const (
	StatusSANoResources       Status = 0x0100
	StatusSAInvalidRequest    Status = 0x0200
	StatusSANoRecords         Status = 0x0300
	StatusSATooManyRecords    Status = 0x0400
	StatusSAInvalidGID        Status = 0x0500
	StatusSAInsufficient      Status = 0x0600 // components
	statusSADenied            Status = 0x0700
	statusSAPrioritySuggested Status = 0x0800
)

var statusText = map[Status]string{
	StatusBusy: "busy", StatusRedirect: "redirected", StatusBadVersion: "class or class version not supported",
	StatusBadMethod: "method not supported", StatusBadMethodAttr: "method not supported for this attribute", StatusInvalid: "invalid value",
}

var statusTextSA = map[Status]string{
	StatusSANoResources: "no resources", StatusSAInvalidRequest: "invalid request", StatusSANoRecords: "no records", StatusSATooManyRecords: "too many records",
	StatusSAInvalidGID: "invalid GID", StatusSAInsufficient: "insufficient components", statusSADenied: "request denied",
	statusSAPrioritySuggested: "another priority suggested",
}

// StatusError is the status of a response that isn't StatusOK. It is the cause of a *verbs.Error.
type StatusError struct {
	Class    Class
	Method   Method // method of the response
	AttrID   AttrID
	Modifier uint32
	Status   Status
}

// Err returns a *verbs.Error whose cause is a *StatusError if the status of the MAD isn't StatusOK. The
// MAD must be a response.
func (m MAD) Err() error {
	s := m.Status()
	if s == StatusOK {
		return nil
	}
	return &verbs.Error{Op: m.Method().String(), Object: m.attrName(), Err: &StatusError{m.Class(), m.Method(), m.AttrID(), m.Modifier(), s}}
}

// attrName returns the name of the attribute. The names of subnet management need no class before them.
func (m MAD) attrName() string {
	name := AttrName(m.Class(), m.AttrID())
	if m.Class().SubnetManagement() {
		return name
	}
	return m.Class().String() + " " + name
}

func (e *StatusError) Error() string {
	text := statusText[e.Status&0xff]
	if e.Class == ClassSA && e.Status&0xff00 != 0 {
		text = statusTextSA[e.Status&0xff00]
	}
	if text == "" {
		text = "error"
	}
	return fmt.Sprintf("status 0x%04x (%s)", uint16(e.Status), text)
}

// Is reports whether target is errors.ErrUnsupported and the other end doesn't support the class,
// the method or the attribute.
func (e *StatusError) Is(target error) bool {
	switch e.Status & 0x1c {
	case StatusBadVersion, StatusBadMethod, StatusBadMethodAttr:
		return target == errors.ErrUnsupported
	}
	return false
}
