// Package ibcm has the messages by which the connection managers of two hosts set up and end connections over InfiniBand and
// RoCE, as rdma_cm uses them (IBA specification, volume 1, chapter 12).
package ibcm

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// QP is the queue pair of management datagrams, and QKey its Q_Key.
const (
	QP   = 1
	QKey = 0x80010000
)

// Size is the length of a message in bytes.
const Size = 256

// Kind is the kind of a message: its attribute ID.
type Kind uint16

// The kinds. The others, LAP and APR, are not for rdma_cm.
const (
	REQ     Kind = 0x10 + iota // asks for a connection
	MRA                        // asks for time to answer
	REJ                        // refuses
	REP                        // accepts
	RTU                        // confirms REP
	DREQ                       // ends a connection
	DREP                       // confirms DREQ
	SIDRREQ                    // asks for the queue pair of a datagram service
	SIDRREP
)

// The port spaces of rdma_cm. A service ID holds a port space and a port.
const (
	SpaceTCP = 0x106
	SpaceUDP = 0x111
)

// Message is a message. Fields that its kind does not have are zero.
type Message struct {
	Kind              Kind
	TID               uint64
	LocalID, RemoteID uint32 // the sender's and the receiver's numbers of the connection; one of them is the request ID of SIDR

	Space uint64 // of the service ID: the bits above the port
	Port  uint16

	GUID                               uint64 // of the sender; in a REJ it is written only
	QPN                                uint32 // of the sender, in a DREQ the receiver's
	QKey                               uint32
	PSN                                uint32 // of the first packet that the receiver sends
	ResponderResources, InitiatorDepth uint8
	FlowControl, SRQ                   uint8
	RetryCount, RNRRetry               uint8
	Transport                          uint8 // 0: RC
	MTU                                uint8 // of enum ib_mtu
	AckTimeout, AckDelay               uint8
	LocalGID, RemoteGID                [16]byte
	FlowLabel                          uint32 // of both ends' packets, like the next two
	TrafficClass                       uint8
	HopLimit                           uint8

	Of      uint8 // the message that a MRA or REJ answers: 0: REQ, 1: REP, 2: another one
	Timeout uint8 // of MRA
	Reason  uint16
	Status  uint8

	// The addresses of a request, which rdma_cm puts in front of the private data.
	Src netip.AddrPort
	Dst netip.Addr

	Private []byte // zeros follow it in the message
}

// The constant fields of requests.
const (
	responseTimeout = 20 // CMA_CM_RESPONSE_TIMEOUT
	cmRetries       = 15 // CMA_MAX_CM_RETRIES
	partition       = 0xffff
	permissiveLID   = 0xffff // of a request that is routed
	rate            = 3      // IB_RATE_10_GBPS
)

// Private data begins here, from the message's first byte on.
var privateAt = map[Kind]int{REQ: 24 + 140, MRA: 24 + 10, REJ: 24 + 84, REP: 24 + 36, RTU: 24 + 8, DREQ: 24 + 12, DREP: 24 + 8, SIDRREQ: 24 + 16, SIDRREP: 24 + 96}

// addressesSize is the length of the addresses in front of private data (struct cma_hdr).
const addressesSize = 36

// codec reads or writes the fields of a message. Positions count from the end of the MAD's header, and bits from the highest.
type codec struct {
	b     []byte
	write bool
}

func field[T uint8 | uint16 | uint32 | uint64](c codec, at, bit, width int, v *T) {
	end := bit + width // within the 8 bytes from at on
	var word [8]byte
	n := copy(word[:], c.b[24+at:])
	mask := (uint64(1)<<(width-1)<<1 - 1) << (64 - end)
	x := binary.BigEndian.Uint64(word[:])
	if !c.write {
		*v = T(x & mask >> (64 - end))
		return
	}
	binary.BigEndian.PutUint64(word[:], x&^mask|uint64(*v)<<(64-end)&mask)
	copy(c.b[24+at:], word[:n])
}

// constant writes a field that nobody reads.
func constant(c codec, at, bit, width int, v uint64) {
	if c.write {
		field(c, at, bit, width, &v)
	}
}

func (c codec) gid(at int, v *[16]byte) {
	if c.write {
		copy(c.b[24+at:], v[:])
		return
	}
	copy(v[:], c.b[24+at:])
}

// fields reads or writes the fields. C: ibta_vol1_c12.h
func (m *Message) fields(c codec) {
	switch m.Kind {
	case REQ, SIDRREQ:
		field(c, 0, 0, 32, &m.LocalID)
	case SIDRREP:
		field(c, 0, 0, 32, &m.RemoteID)
	default:
		field(c, 0, 0, 32, &m.LocalID)
		field(c, 4, 0, 32, &m.RemoteID)
	}
	switch m.Kind {
	case REQ:
		field(c, 8, 0, 48, &m.Space)
		field(c, 14, 0, 16, &m.Port)
		field(c, 16, 0, 64, &m.GUID)
		field(c, 32, 0, 24, &m.QPN)
		field(c, 35, 0, 8, &m.ResponderResources)
		field(c, 39, 0, 8, &m.InitiatorDepth)
		constant(c, 43, 0, 5, responseTimeout)
		field(c, 43, 5, 2, &m.Transport)
		field(c, 43, 7, 1, &m.FlowControl)
		field(c, 44, 0, 24, &m.PSN)
		constant(c, 47, 0, 5, responseTimeout)
		field(c, 47, 5, 3, &m.RetryCount)
		constant(c, 48, 0, 16, partition)
		field(c, 50, 0, 4, &m.MTU)
		field(c, 50, 5, 3, &m.RNRRetry)
		constant(c, 51, 0, 4, cmRetries)
		field(c, 51, 4, 1, &m.SRQ)
		constant(c, 52, 0, 16, permissiveLID)
		constant(c, 54, 0, 16, permissiveLID)
		c.gid(56, &m.LocalGID)
		c.gid(72, &m.RemoteGID)
		field(c, 88, 0, 20, &m.FlowLabel)
		constant(c, 91, 2, 6, rate)
		field(c, 92, 0, 8, &m.TrafficClass)
		field(c, 93, 0, 8, &m.HopLimit)
		field(c, 95, 0, 5, &m.AckTimeout)
	case MRA:
		field(c, 8, 0, 2, &m.Of)
		field(c, 9, 0, 5, &m.Timeout)
	case REJ:
		field(c, 8, 0, 2, &m.Of)
		field(c, 10, 0, 16, &m.Reason)
		if m.GUID != 0 { // additional information, which nobody reads
			constant(c, 9, 0, 7, 8)
			field(c, 12, 0, 64, &m.GUID)
		}
	case REP:
		field(c, 12, 0, 24, &m.QPN)
		field(c, 20, 0, 24, &m.PSN)
		field(c, 24, 0, 8, &m.ResponderResources)
		field(c, 25, 0, 8, &m.InitiatorDepth)
		field(c, 26, 0, 5, &m.AckDelay)
		field(c, 26, 7, 1, &m.FlowControl)
		field(c, 27, 0, 3, &m.RNRRetry)
		field(c, 27, 3, 1, &m.SRQ)
		field(c, 28, 0, 64, &m.GUID)
	case DREQ:
		field(c, 8, 0, 24, &m.QPN)
	case SIDRREQ:
		constant(c, 4, 0, 16, partition)
		field(c, 8, 0, 48, &m.Space)
		field(c, 14, 0, 16, &m.Port)
	case SIDRREP:
		field(c, 4, 0, 8, &m.Status)
		field(c, 8, 0, 24, &m.QPN)
		field(c, 12, 0, 48, &m.Space)
		field(c, 18, 0, 16, &m.Port)
		field(c, 20, 0, 32, &m.QKey)
	}
}

const (
	class   = 7 // of connection management
	version = 2 // of the class
	send    = 3 // the method
)

// isRequest reports whether messages of the kind have addresses.
func (k Kind) isRequest() bool { return k == REQ || k == SIDRREQ }

// Marshal returns the message as it is sent. It cuts private data that is too long.
func (m *Message) Marshal() []byte {
	b := make([]byte, Size)
	b[0], b[1], b[2], b[3] = 1, class, version, send
	binary.BigEndian.PutUint64(b[8:], m.TID)
	binary.BigEndian.PutUint16(b[16:], uint16(m.Kind))
	m.fields(codec{b, true})
	private := b[privateAt[m.Kind]:]
	if m.Kind.isRequest() {
		private[1] = 6 << 4
		if m.Dst.Is4() {
			private[1] = 4 << 4
		}
		binary.BigEndian.PutUint16(private[2:], m.Src.Port())
		putAddress(private[4:20], m.Src.Addr())
		putAddress(private[20:36], m.Dst)
		private = private[addressesSize:]
	}
	copy(private, m.Private)
	return b
}

// putAddress writes an address of IPv4 into the last bytes, after zeros.
func putAddress(b []byte, a netip.Addr) {
	s := a.AsSlice()
	copy(b[len(b)-len(s):], s)
}

func address(b []byte, v4 bool) netip.Addr {
	if v4 {
		return netip.AddrFrom4([4]byte(b[12:16]))
	}
	return netip.AddrFrom16([16]byte(b))
}

var errOther = errors.New("not a message of the connection manager")

// Parse reads a message. Its private data is part of b and as long as the message has room for. The addresses of a request
// that has none, because it is not one of rdma_cm's, are not valid.
func Parse(b []byte) (m Message, err error) {
	if len(b) < Size || b[0] != 1 || b[1] != class || b[2] != version || b[3] != send {
		return m, errOther
	}
	b = b[:Size]
	m.TID, m.Kind = binary.BigEndian.Uint64(b[8:]), Kind(binary.BigEndian.Uint16(b[16:]))
	at, ok := privateAt[m.Kind]
	if !ok {
		return m, errOther
	}
	m.fields(codec{b, false})
	m.Private = b[at:]
	if !m.Kind.isRequest() {
		return m, nil
	}
	h := m.Private
	m.Private = h[addressesSize:]
	if v := h[1] >> 4; h[0] == 0 && (v == 4 || v == 6) {
		m.Src = netip.AddrPortFrom(address(h[4:20], v == 4), binary.BigEndian.Uint16(h[2:]))
		m.Dst = address(h[20:36], v == 4)
	}
	return m, nil
}
